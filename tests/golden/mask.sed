# What depends on this computer or on the moment.
/^  host {10}[^ ]/d
/^  engine  /,/^  CPU variant/d
s/"ts":"[^"]*"/"ts":"T"/
s/, [0-9,]+ ms\.$/, N ms./
s/"plan_ms": [0-9.]+/"plan_ms": N/
/not used by serve: this engine was built without/d
