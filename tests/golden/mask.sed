# What depends on this computer or on the moment.
/^  host {10}[^ ]/d
/^ +memory bandwidth is guessed from the cores/d
/^  engine  /,/^  CPU variant/d
s/"ts":"[^"]*"/"ts":"T"/
s/, [0-9,]+ ms\.$/, N ms./
s/"plan_ms": [0-9.]+/"plan_ms": N/
/not used by serve: this engine was built without/d
s/(Cached prompts may use a further) [0-9.,]+ [A-Za-z]+ of/\1 N of/ # of what is free now
s/^(vram-llm [0-9.]+)( \(commit [0-9a-f]+(-dirty)?\))?, engine/\1 (commit C), engine/
