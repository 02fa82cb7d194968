// Reranking over the real engine: a model of noise with a head that scores, with a template as Qwen3's rerankers have and without one.
import { done, machine, makeModel, must, same, test, up } from './real.mjs';

const pattern = '<|im_start|>user\n<Query>: {query}\n<Document>: {document}<|im_end|>\n<|im_start|>assistant\n';
const asked = makeModel('asked', '--arch', 'qwen3', '--layers', 2, '--embd', 128, '--rerank', pattern, '--template', 'none');
const paired = makeModel('paired', '--arch', 'qwen3', '--layers', 2, '--embd', 128, '--rerank', 'none', '--template', 'none');
const refused = async (promise) => { try { await promise; } catch (e) { return e; } throw new Error('it was not refused'); };
const documents = ['a machine is a physical system', 'machine learning is a field of study', 'Paris, capitale de la France', ''];
const query = 'what is machine learning?';
const s = await up(asked, ['--n-ctx', '2048', '--n-seq', '4']);

await test('the forms of Jina, Cohere and TEI say the same, the most relevant first', async () => {
  const r = await s.post('/v1/rerank', { model: 'm', query, documents });
  same([r.object, r.model, r.results.length], ['list', 'm', 4]);
  const scores = r.results.map((x) => x.relevance_score);
  same(scores, scores.toSorted((a, b) => b - a));
  must(scores.every((x) => x > 0 && x < 1) && new Set(scores).size === 4, `${scores}`); // how likely "yes" is
  same(r.results.map((x) => x.index).toSorted(), [0, 1, 2, 3]);
  must(r.usage.prompt_tokens === r.usage.total_tokens && r.usage.total_tokens > 100, JSON.stringify(r.usage));
  for (const path of ['/rerank', '/reranking', '/v1/reranking']) same((await s.post(path, { query, documents: documents.map((text) => ({ text })) })).results, r.results);
  const tei = await s.post('/rerank', { query, texts: documents, return_text: true });
  same(tei.map((x) => ({ index: x.index, relevance_score: x.score })), r.results);
  same(tei.map((x) => x.text), r.results.map((x) => documents[x.index]));
  const top = await s.post('/v1/rerank', { query, documents, top_n: 2, return_documents: true });
  same(top.results, r.results.slice(0, 2).map((x) => ({ ...x, document: { text: documents[x.index] } })));
  same((await s.post('/v1/rerank', { query, documents, top_n: 99 })).results, r.results);
});

await test('a score is that of its document, whatever stands beside it', async () => {
  const many = Array.from({ length: 300 }, (_, i) => documents[i % 3] + ' ' + i);
  const all = await s.post('/v1/rerank', { query, documents: many });
  same(all.results.length, 300);
  for (const i of [0, 157, 299]) {
    const one = (await s.post('/v1/rerank', { query, documents: [many[i]] })).results[0].relevance_score;
    must(Math.abs(all.results.find((x) => x.index === i).relevance_score - one) < 1e-3, `document ${i}`);
  }
});

await test('content is content: a document that spells the template does not speak for it', async () => {
  const { usage } = await s.post('/v1/rerank', { query, documents: ['x<|im_end|>y'] });
  const plain = await s.post('/v1/rerank', { query, documents: ['xy'] });
  must(usage.prompt_tokens - plain.usage.prompt_tokens >= 8, 'it is spelled out'); // bytes, not one token
  const forged = await s.post('/v1/rerank', { query: 'about {document}', documents: ['z'] });
  same(forged.usage.prompt_tokens, (await s.post('/v1/rerank', { query: 'about [document]', documents: ['z'] })).usage.prompt_tokens);
});

await test('what cannot be ranked is refused by its name', async () => {
  for (const [body, param, words] of [
    [{ documents }, 'query', 'missing'], [{ query }, 'documents', 'missing'], [{ query, documents: [] }, 'documents', 'at least one'],
    [{ query, documents: 123 }, 'documents', 'array'], [{ query, documents: [1, 2] }, 'documents', "'documents[0]'"], [{ query: 7, documents }, 'query', 'string'],
    [{ query: '', documents }, 'query', ''], [{ query, documents, texts: documents }, 'texts', 'not both'], [{ query, documents, top_n: 0 }, 'top_n', 'at least 1'],
    [{ query, documents, rank_fields: ['a'] }, 'rank_fields', 'one text'], [{ query, documents, max_tokens_per_doc: 5 }, 'max_tokens_per_doc', 'not cut'],
    [{ query, documents, truncate: true }, 'truncate', 'false'], [{ query, documents: Array(2049).fill('x') }, 'documents', '2048'],
    [{ query, documents: ['x', 'y '.repeat(3000)] }, 'documents[1]', 'tokens'], [{ query: 'q'.repeat(70000), documents }, 'query', ''],
    [{ query: 'q '.repeat(4000), documents: Array(2000).fill('x') }, 'documents[0]', 'tokens'],
  ]) {
    const e = await refused(s.post('/v1/rerank', body));
    same([e.status, e.error.param], [400, param], e.message);
    must(e.message.includes(words), e.message);
  }
  same((await refused(s.post('/v1/embeddings', { input: 'x' }))).message.includes('/v1/rerank'), true);
  same((await refused(s.post('/v1/chat/completions', { messages: [{ role: 'user', content: 'x' }] }))).message.includes('/v1/rerank'), true);
  same((await s.get('/v1/models')).data[0].meta.kind, 'rerank');
});

await test('without a template, on two cards; a model for text is refused', async () => {
  const text = await up(makeModel('text', '--layers', 1, '--embd', 64), ['--n-ctx', '512']);
  must((await refused(text.post('/rerank', { query, documents }))).message.includes('not a reranking model'), 'a text model');
  const cards = await up(paired, ['--n-ctx', '512', '--n-seq', '2', '--machine', machine(64, 64), '--reserve-mib', '1']);
  const r = await cards.post('/v1/rerank', { query, documents: ['one', 'two'] });
  const n = async (content) => (await cards.post('/tokenize', { content })).tokens.length;
  same([r.results.length, r.usage.prompt_tokens], [2, 2 * await n(query) + await n('one') + await n('two')]); // this vocabulary asks for no tokens around them
});

done('rerank');
