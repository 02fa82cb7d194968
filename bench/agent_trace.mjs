// What agents send: an agent asks, thinks, calls a tool and gets its result, turn after turn, with the whole history each time; every sixth
// turn the user says something new, and the template drops all thoughts before that, as those of Qwen do. The answers in the history are
// written here: what small random models say is noise.
//
// New tokens of a turn: those behind what its prompt has in common with the one before. Nobody can compute fewer.
import { random } from './client.mjs';

export const TEMPLATE = `{% if tools %}<|im_start|>system
# Tools{% for tool in tools %}
{{ tool | tojson }}{% endfor %}<|im_end|>
{% endif %}{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}`
  + `{% for m in messages %}{% if m.role == 'assistant' %}<|im_start|>A
{% if m.reasoning_content and loop.index0 > ns.last %}<t>
{{ m.reasoning_content }}
</t>

{% endif %}{% if m.content %}{{ m.content }}{% endif %}{% for c in m.tool_calls or [] %}
<tool_call>{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}</tool_call>{% endfor %}<|im_end|>
{% elif m.role == 'tool' %}<|im_start|>user
<tool_response>
{{ m.content }}
</tool_response><|im_end|>
{% else %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>A
<t>
{% endif %}`; // short words: a letter is a token here, and "assistant" is one elsewhere

const WORDS = 'the of and to in is that for it as was with be by on not he this are or his from at which but have an had they you were their one all we can her has there been if more when will would who so no'.split(' ');
const TOOLS = [{ type: 'function', function: { name: 'run', description: 'Runs a command', parameters: { type: 'object', properties: { command: { type: 'string' } }, required: ['command'] } } }];

export class Agent {
  constructor(id, tokens, turns) {
    Object.assign(this, { tokens, turns });
    this.r = random(id + 1);
    this.messages = [{ role: 'system', content: `You are agent ${id}. ` + this.prose(tokens / 20) }, { role: 'user', content: this.prose(200) }];
    this.turn = 0;
    this.before = '';
  }
  prose(chars) { let s = ''; while (s.length < chars) s += this.r.pick(WORDS) + ' '; return s.trim(); }
  // What happened since the last turn: an answer or a call, and what came of it.
  next() {
    const each = this.tokens / this.turns;
    if (this.turn++ === 0) return;
    const reasoning_content = this.prose(each / 5);
    if (this.turn % 6 === 0) this.messages.push({ role: 'assistant', reasoning_content, content: this.prose(each / 5) }, { role: 'user', content: this.prose(each / 2) });
    else {
      const id = `call${this.turn}`, call = { id, type: 'function', function: { name: 'run', arguments: JSON.stringify({ command: this.prose(60) }) } };
      this.messages.push({ role: 'assistant', reasoning_content, content: '', tool_calls: [call] }, { role: 'tool', tool_call_id: id, content: this.prose(each * 0.9) });
    }
  }
  body() { return { messages: this.messages, tools: TOOLS }; }
}

const count = async (post, content) => (await post('/tokenize', { content, parse_special: true })).tokens.length;

// `post` asks any server that has llama.cpp's own routes.
export async function newTokens(post, agent) {
  const { prompt } = await post('/apply-template', agent.body());
  let k = 0;
  while (k < prompt.length && prompt[k] === agent.before[k]) k++;
  agent.before = prompt;
  return await count(post, prompt) - await count(post, prompt.slice(0, k));
}
