// What the clients of a soak send: every API, whole and streamed, right and wrong, by clients that stay and clients that leave.
//   requests(r, keys) -> next(model) -> {path, body, headers, ends, leave_at, leave_ms}
// ends: what a stream that was not cut off has in its text; leave_at: after so many events.
const words = (n) => 'word '.repeat(n);
const schema = { type: 'object', properties: { a: { type: 'string', maxLength: 8 }, b: { enum: ['x', 'y'] } }, required: ['a', 'b'], additionalProperties: false };
const tool = { type: 'function', function: { name: 'f', parameters: schema } };
export const auth = (key) => ({ authorization: `Bearer ${key}` });

export function requests(r, keys) {
  let serial = 0;
  const say = () => [{ role: 'user', content: `${++serial} hello` }];
  const as = (path, body, ends) => ({ path, body, ends });
  const chat = (more = {}) => as('/v1/chat/completions', { messages: say(), max_tokens: 12, ...more }, /\[DONE\]/);
  const long = (more) => ({ ...chat({ stream: true, max_tokens: 200, ignore_eos: true }), ...more });
  const kinds = [
    () => chat(), () => chat({ stream: true }), () => chat({ n: 3 }), () => chat({ stop: ['a', 'b'], logprobs: true, top_logprobs: 5 }),
    () => chat({ response_format: { type: 'json_schema', json_schema: { name: 's', schema } } }), () => chat({ tools: [tool] }),
    () => as('/v1/completions', { prompt: ['one', 'two'], max_tokens: 8, grammar: 'root ::= [a-z]{1,8}' }),
    // clients that leave
    () => long({ leave_at: 1 + r.below(40) }), () => long({ leave_ms: 1 + r.below(60) }), () => long({ leave_ms: 1 + r.below(900) }), () => ({ ...chat(), leave_ms: 1 + r.below(20) }),
    // other APIs
    () => as('/v1/messages', { messages: say(), max_tokens: 8, stream: r.below(2) === 1 }, /message_stop|"type":"error"/),
    () => as('/v1/responses', { input: say(), max_output_tokens: 8, stream: r.below(2) === 1 }, /response\.(completed|incomplete|failed)|"type":"error"/),
    () => as('/api/chat', { messages: say(), options: { num_predict: 8 }, stream: r.below(2) === 1 }, /"done":true|"error"/),
    () => as('/completion', { prompt: 'once', n_predict: 8, stream: r.below(2) === 1 }, /"stop":true|"error"/),
    () => as('/v1/embeddings', { input: ['one', 'two'] }), () => as('/v1/rerank', { query: 'a', documents: ['b', 'c'] }),
    () => as('/tokenize', { content: words(20) }), () => as('/v1/messages/count_tokens', { messages: say() }),
    // what is refused
    () => chat({ temperature: 9 }), () => chat({ grammar: 'root ::= ((' }), () => ({ ...chat(), headers: auth('wrong-key-0123456789') }), () => chat({ model: 'nobody' }),
    () => ({ ...chat(), body: '{"messages":' }), () => chat({ messages: [{ role: 'user', content: words(4000) }] }),
    () => ({ ...chat(), headers: auth(r.pick(keys)) }),
  ];
  return (model) => {
    const what = r.pick(kinds)();
    return typeof what.body === 'string' ? what : { ...what, body: { model, ...what.body } };
  };
}
