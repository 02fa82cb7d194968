/* Chat templates of our own that do with a conversation what those of twelve model families do with it, and the special
 * tokens that belong to them: "c" control, "d" defined by the user. */
#ifndef CONTENT_FAMILIES_H
#define CONTENT_FAMILIES_H

#include "tiny_vocab.h"

struct family {
    const char *name;
    enum tiny_kind kind;
    bool add_bos;
    const char *bos, *eos;
    const char *specials; /* separated by spaces, each with its kind in front */
    const char *source;
};

#define TOOL_LOOP "{%- for tool in tools %}{{ '\\n' }}{{ tool | tojson }}{%- endfor %}"

static const struct family families[] = {
    { "ChatML (Qwen2.5)", TINY_BPE, false, "<|endoftext|>", "<|im_end|>",
      "c<|endoftext|> c<|im_start|> c<|im_end|> d<tool_call> d</tool_call> d<|fim_prefix|>",
      "{%- if tools %}{{- '<|im_start|>system\\n' }}{%- if messages[0].role == 'system' %}{{- messages[0].content "
      "}}{%- endif %}"
      "{{- '\\n# Tools\\n<tools>' }}" TOOL_LOOP "{{- '\\n</tools>\\n<tool_call>\\n{\"name\": <function-name>, "
      "\"arguments\": <args-json-object>}\\n</tool_call><|im_end|>\\n' }}"
      "{%- elif messages[0].role == 'system' %}{{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' "
      "}}{%- endif %}"
      "{%- for message in messages %}{%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}"
      "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
      "{%- elif message.role == 'assistant' %}{{- '<|im_start|>assistant' }}{%- if message.content %}{{- '\\n' + "
      "message.content }}{%- endif %}"
      "{%- for call in message.tool_calls %}{{- '\\n<tool_call>\\n{\"name\": \"' + call.function.name + '\", "
      "\"arguments\": ' }}"
      "{{- call.function.arguments | tojson }}{{- '}\\n</tool_call>' }}{%- endfor %}{{- '<|im_end|>\\n' }}"
      "{%- elif message.role == 'tool' %}{{- '<|im_start|>user\\n<tool_response>\\n' + message.content + "
      "'\\n</tool_response><|im_end|>\\n' }}"
      "{%- endif %}{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}" },
    { "Qwen3 (looks for thoughts)", TINY_BPE, false, "<|endoftext|>", "<|im_end|>",
      "c<|endoftext|> c<|im_start|> c<|im_end|> d<think> d</think> d<tool_call> d</tool_call> d<tool_response> "
      "d</tool_response>",
      "{%- if tools %}{{- '<|im_start|>system\\n<tools>' }}" TOOL_LOOP
      "{{- '\\n</tools>\\n<tool_call>\\n{\"name\": <function-name>, \"arguments\": "
      "<args-json-object>}\\n</tool_call><|im_end|>\\n' }}{%- endif %}"
      "{%- set ns = namespace(last=-1) %}{%- for m in messages %}{%- if m.role == 'user' and not "
      "(m.content.startswith('<tool_response>') and "
      "m.content.endswith('</tool_response>')) %}{%- set ns.last = loop.index0 %}{%- endif %}{%- endfor %}"
      "{%- for message in messages %}{%- if message.role == 'user' or message.role == 'system' %}"
      "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
      "{%- elif message.role == 'assistant' %}{%- set content = message.content or '' %}{%- set thought = '' %}"
      "{%- if message.reasoning_content is string %}{%- set thought = message.reasoning_content %}"
      "{%- elif '</think>' in content %}{%- set thought = "
      "content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}"
      "{%- set content = content.split('</think>')[-1].lstrip('\\n') %}{%- endif %}{{- '<|im_start|>assistant\\n' }}"
      "{%- if thought %}{{- '<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' }}{%- endif %}{{- content }}"
      "{%- for call in message.tool_calls %}{{- '\\n<tool_call>\\n{\"name\": \"' + call.function.name + '\", "
      "\"arguments\": ' }}"
      "{%- if call.function.arguments is string %}{{- call.function.arguments }}{%- else %}{{- call.function.arguments "
      "| tojson }}{%- endif %}"
      "{{- '}\\n</tool_call>' }}{%- endfor %}{{- '<|im_end|>\\n' }}"
      "{%- elif message.role == 'tool' %}{{- '<|im_start|>user\\n<tool_response>\\n' + message.content + "
      "'\\n</tool_response><|im_end|>\\n' }}"
      "{%- endif %}{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}"
      "{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif "
      "%}{%- endif %}" },
    { "Llama 3 (trims, begins with BOS)", TINY_BPE, true, "<|begin_of_text|>", "<|eot_id|>",
      "c<|begin_of_text|> c<|start_header_id|> c<|end_header_id|> c<|eot_id|> c<|eom_id|> c<|python_tag|>",
      "{{- bos_token }}{%- if custom is defined %}{{- custom }}{%- endif %}"
      "{%- if tools %}{{- '<|start_header_id|>system<|end_header_id|>\\n\\nEnvironment: ipython\\n' }}"
      "{%- for t in tools %}{{- t | tojson(indent=4) }}{{- '\\n\\n' }}{%- endfor %}{{- '<|eot_id|>' }}{%- endif %}"
      "{%- for message in messages %}{%- if message.role == 'tool' %}"
      "{{- '<|start_header_id|>ipython<|end_header_id|>\\n\\n' }}{{- message.content | tojson }}{{- '<|eot_id|>' }}"
      "{%- elif message.tool_calls %}{%- set call = message.tool_calls[0].function %}"
      "{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n{\"name\": \"' + call.name + '\", \"parameters\": ' }}"
      "{{- call.arguments | tojson }}{{- '}<|eot_id|>' }}"
      "{%- else %}{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' + message.content | trim + "
      "'<|eot_id|>' }}{%- endif %}"
      "{%- endfor %}{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- "
      "endif %}" },
    { "Gemma 3 (SentencePiece, HTML tags are tokens)", TINY_SPM, true, "<bos>", "<eos>",
      "c<bos> c<eos> c<start_of_turn> c<end_of_turn> c<start_of_image> d<h1> d<table> d\n\n",
      "{{ bos_token }}{%- if messages[0].role == 'system' %}{%- set first = messages[0].content + '\\n\\n' %}{%- set "
      "rest = messages[1:] %}"
      "{%- else %}{%- set first = '' %}{%- set rest = messages %}{%- endif %}"
      "{%- for message in rest %}{%- set role = 'model' if message.role == 'assistant' else message.role %}"
      "{{ '<start_of_turn>' + role + '\\n' + (first if loop.first else '') }}"
      "{%- if message.content is string %}{{ message.content | trim }}{%- else %}{%- for item in message.content %}"
      "{%- if item.type == 'image' %}{{ '<start_of_image>' }}{%- elif item.type == 'text' %}{{ item.text | trim }}{%- "
      "endif %}{%- endfor %}{%- endif %}"
      "{{ '<end_of_turn>\\n' }}{%- endfor %}{%- if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{%- endif "
      "%}" },
    { "Mistral (SentencePiece with a space in front)", TINY_SPM_SPACED, true, "<s>", "</s>",
      "c<s> c</s> c[INST] c[/INST] c[TOOL_CALLS] c[AVAILABLE_TOOLS] c[/AVAILABLE_TOOLS] c[TOOL_RESULTS] "
      "c[/TOOL_RESULTS]",
      "{{- bos_token }}{%- for message in messages %}{%- if message.role == 'user' %}"
      "{%- if tools and loop.last %}{{- '[AVAILABLE_TOOLS] [' }}{%- for tool in tools %}{{- tool | tojson }}{%- endfor "
      "%}{{- '][/AVAILABLE_TOOLS]' }}{%- endif %}"
      "{{- '[INST] ' + message.content + '[/INST]' }}"
      "{%- elif message.role == 'system' %}{{- '[INST] ' + message.content + '[/INST]' }}"
      "{%- elif message.tool_calls %}{{- '[TOOL_CALLS] [' }}{%- for call in message.tool_calls %}"
      "{{- '{\"name\": \"' + call.function.name + '\", \"arguments\": ' }}{{- call.function.arguments | tojson }}{{- "
      "', \"id\": \"' + call.id + '\"}' }}{%- endfor %}"
      "{{- ']' + eos_token }}"
      "{%- elif message.role == 'assistant' %}{{- ' ' + message.content | trim + eos_token }}"
      "{%- elif message.role == 'tool' %}{{- '[TOOL_RESULTS] {\"content\": ' + message.content | string + ', "
      "\"call_id\": \"' + message.tool_call_id + '\"}[/TOOL_RESULTS]' }}"
      "{%- endif %}{%- endfor %}" },
    { "Llama 2 (marks inside marks)", TINY_SPM_SPACED, true, "<s>", "</s>", "c<s> c</s> c<pad>",
      "{%- for message in messages %}{%- if message.role == 'user' %}{{- bos_token + '[INST] ' + "
      "message.content.strip() + ' [/INST]' }}"
      "{%- elif message.role == 'system' %}{{- '<<SYS>>\\n' + message.content.strip() + '\\n<</SYS>>\\n\\n' }}"
      "{%- elif message.role == 'assistant' %}{{- ' ' + message.content.strip() + ' ' + eos_token }}{%- endif %}{%- "
      "endfor %}" },
    { "Phi (tokens made of roles)", TINY_BPE, false, "<|endoftext|>", "<|end|>",
      "c<|endoftext|> c<|system|> c<|user|> c<|assistant|> c<|tool|> c<|/tool|> c<|end|> c<|tool_call|> "
      "c<|/tool_call|>",
      "{%- for message in messages %}{%- if message.role == 'system' and tools %}"
      "{{- '<|system|>' + message.content + '<|tool|>' + tools | tojson + '<|/tool|><|end|>' }}"
      "{%- else %}{{- '<|' + message.role + '|>' + message.content + '<|end|>' }}{%- endif %}{%- endfor %}"
      "{%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- endif %}" },
    { "gpt-oss (channels)", TINY_BPE, false, "<|startoftext|>", "<|return|>",
      "c<|startoftext|> c<|return|> c<|start|> c<|end|> c<|message|> c<|channel|> c<|constrain|> c<|call|>",
      "{%- for message in messages %}{%- if message.role == 'tool' %}"
      "{{- '<|start|>functions.f to=assistant<|channel|>commentary<|message|>' + message.content | tojson + '<|end|>' "
      "}}"
      "{%- elif message.role == 'assistant' %}{%- if message.tool_calls %}{%- set call = "
      "message.tool_calls[0].function %}"
      "{{- '<|start|>assistant to=functions.' + call.name + '<|channel|>commentary json<|message|>' + call.arguments | "
      "tojson + '<|call|>' }}"
      "{%- else %}{{- '<|start|>assistant<|channel|>final<|message|>' + message.content + '<|end|>' }}{%- endif %}"
      "{%- else %}{{- '<|start|>' + message.role + '<|message|>' + message.content }}"
      "{%- if message.role == 'system' and tools %}{%- for tool in tools %}"
      "{{- '\\n// ' + tool.function.description + '\\ntype ' + tool.function.name + ' = (_: ' }}"
      "{%- for name, p in tool.function.parameters.properties.items() %}{{- name + ': ' + p.type }}{%- if p.enum %}{{- "
      "p.enum | join('|') }}{%- endif %}"
      "{%- if p.description %}{{- ' // ' + p.description }}{%- endif %}{%- endfor %}{{- ') => any;' }}{%- endfor %}{%- "
      "endif %}{{- '<|end|>' }}"
      "{%- endif %}{%- endfor %}{%- if add_generation_prompt %}{{- '<|start|>assistant' }}{%- endif %}" },
    { "DeepSeek-R1 (what follows the thought)", TINY_BPE, true,
      "<\xef\xbd\x9c"
      "begin\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>",
      "<\xef\xbd\x9c"
      "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>",
      "c<\xef\xbd\x9c"
      "begin\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c> c<\xef\xbd\x9c"
      "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c> "
      "c<\xef\xbd\x9cUser\xef\xbd\x9c> c<\xef\xbd\x9c"
      "Assistant\xef\xbd\x9c> d<think> d</think> d<\xef\xbd\x9ctool\xe2\x96\x81output\xe2\x96\x81"
      "begin\xef\xbd\x9c>",
      "{{- bos_token }}{%- for message in messages %}{%- if message.role == 'system' %}{{- message.content }}"
      "{%- elif message.role == 'user' %}{{- '<\xef\xbd\x9cUser\xef\xbd\x9c>' + message.content }}"
      "{%- elif message.role == 'tool' %}{{- '<\xef\xbd\x9ctool\xe2\x96\x81output\xe2\x96\x81"
      "begin\xef\xbd\x9c>' + message.content }}"
      "{%- else %}{%- set content = message.content or '' %}{%- if '</think>' in content %}{%- set content = "
      "content.split('</think>')[-1] %}{%- endif %}"
      "{{- '<\xef\xbd\x9c"
      "Assistant\xef\xbd\x9c>' + content + eos_token }}{%- endif %}{%- endfor %}"
      "{%- if add_generation_prompt %}{{- '<\xef\xbd\x9c"
      "Assistant\xef\xbd\x9c><think>\\n' }}{%- endif %}" },
    { "GLM-4 (a prefix of marks)", TINY_BPE, false, "<|endoftext|>", "<|user|>",
      "c<|endoftext|> c[gMASK] c<sop> c<|system|> c<|user|> c<|assistant|> c<|observation|>",
      "{{- '[gMASK]<sop>' }}{%- if tools %}{{- '<|system|>\\n# Tools' }}{%- for tool in tools %}"
      "{{- '\\n## ' + tool.function.name + '\\n\\n' + tool.function | tojson(indent=4) }}{%- endfor %}{%- endif %}"
      "{%- for m in messages %}{%- if m.role == 'tool' %}{{- '<|observation|>\\n' + m.content }}"
      "{%- elif m.tool_calls %}{%- for call in m.tool_calls %}{{- '<|assistant|>' + call.function.name + '\\n' + "
      "call.function.arguments | tojson }}{%- endfor %}"
      "{%- else %}{{- '<|' + m.role + '|>\\n' + m.content }}{%- endif %}{%- endfor %}"
      "{%- if add_generation_prompt %}{{- '<|assistant|>\\n' }}{%- endif %}" },
    { "Command-R (tokens for turns and for roles)", TINY_BPE, true, "<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>",
      "c<BOS_TOKEN> c<|START_OF_TURN_TOKEN|> c<|END_OF_TURN_TOKEN|> c<|USER_TOKEN|> c<|CHATBOT_TOKEN|> "
      "c<|SYSTEM_TOKEN|>",
      "{{ bos_token }}{%- for message in messages %}{%- set content = message.content %}"
      "{%- set who = 'CHATBOT' if message.role == 'assistant' else ('USER' if message.role == 'user' else 'SYSTEM') %}"
      "{{ '<|START_OF_TURN_TOKEN|><|' + who + '_TOKEN|>' + (content or '').strip() + '<|END_OF_TURN_TOKEN|>' }}{%- "
      "endfor %}"
      "{%- if add_generation_prompt %}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{%- endif %}" },
    { "Granite (documents as JSON in ASCII)", TINY_BPE, false, "<|end_of_text|>", "<|end_of_text|>",
      "c<|end_of_text|> c<|start_of_role|> c<|end_of_role|> c<|tool_call|>",
      "{%- if tools %}{{- '<|start_of_role|>tools<|end_of_role|>' + tools | tojson(ensure_ascii=true) + "
      "'<|end_of_text|>\\n' }}{%- endif %}"
      "{%- if custom is defined %}{{- '<|start_of_role|>document<|end_of_role|>' + custom | tojson(ensure_ascii=true) "
      "+ '<|end_of_text|>\\n' }}{%- endif %}"
      "{%- for m in messages %}{{- '<|start_of_role|>' + m.role + '<|end_of_role|>' }}{{- m.content }}"
      "{%- for call in m.tool_calls %}{{- '<|tool_call|>' + call | tojson(ensure_ascii=true) }}{%- endfor %}{{- "
      "'<|end_of_text|>\\n' }}{%- endfor %}"
      "{%- if add_generation_prompt %}{{- '<|start_of_role|>assistant<|end_of_role|>' }}{%- endif %}" },
    { "SmolLM3, Nemotron (take words out of messages)", TINY_BPE, false, "<|endoftext|>", "<|im_end|>",
      "c<|endoftext|> c<|im_start|> c<|im_end|> d<think> d</think>",
      "{%- for message in messages %}{%- if message.role == 'assistant' %}{%- set content = message.content or '' %}"
      "{%- if '</think>' in content %}{%- set content = content.split('</think>')[-1].strip() %}{%- endif %}"
      "{{- '<|im_start|>assistant\\n' + content + '<|im_end|>\\n' }}"
      "{%- else %}{{- '<|im_start|>' + message.role + '\\n' + message.content.replace('/no_think', "
      "'').replace('/think', '').strip() + '<|im_end|>\\n' }}"
      "{%- endif %}{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}" },
};
enum { N_FAMILIES = sizeof families / sizeof families[0] };

#endif
