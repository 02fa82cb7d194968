// Agents as they come from npm, each with one task that takes a call of its shell, against the server over the fake engine. The engine calls the
// shell of each (CALLS) and then says five tokens; what counts is what the agents ask: no request of theirs may be answered with 400 or 404, the call
// must have been run, and the agent must end well.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { eventually, serve } from './lib.mjs';

const bin = path.join(process.env.VR_AGENTS, 'node_modules', '.bin');
const command = 'echo called > called.txt';
const CALLS = {
  Bash: { command, description: 'write a file' }, // claude
  shell: { command: ['bash', '-c', command] }, exec_command: { cmd: command }, shell_command: { command }, // codex
  bash: { command, description: 'write a file' }, // opencode
  run_shell_command: { command, is_background: false, description: 'write a file' }, // qwen
};
const task = 'Write a file.';

// What each is started with: words, and the environment beside PATH and HOME.
const agents = {
  claude: (url) => [['-p', task, '--output-format', 'json', '--dangerously-skip-permissions'], {
    ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: 'none', ANTHROPIC_MODEL: 'm', ANTHROPIC_DEFAULT_HAIKU_MODEL: 'm', ANTHROPIC_DEFAULT_SONNET_MODEL: 'm',
    ANTHROPIC_DEFAULT_OPUS_MODEL: 'm', CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1', IS_SANDBOX: '1',
  }],
  codex: (url) => [['exec', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox', '-m', 'm', '-c', 'model_provider="here"',
    '-c', `model_providers.here={name="here",base_url="${url}/v1",wire_api="responses",env_key="HERE_KEY"}`, task], { HERE_KEY: 'none' }],
  opencode: (url) => [['run', '-m', 'here/m', task], {
    OPENCODE_DISABLE_AUTOUPDATE: '1', OPENCODE_DISABLE_MODELS_FETCH: '1', OPENCODE_CONFIG_CONTENT: JSON.stringify({
      permission: 'allow', share: 'disabled', autoupdate: false,
      provider: { here: { npm: '@ai-sdk/openai-compatible', options: { baseURL: url + '/v1', apiKey: 'none' }, models: { m: { limit: { context: 32768, output: 4096 } } } } },
    }),
  }],
  qwen: (url) => [['-p', task, '--yolo', '--auth-type', 'openai', '--model', 'm', '--openai-base-url', url + '/v1', '--openai-api-key', 'none'],
    { OPENAI_API_KEY: 'none', OPENAI_BASE_URL: url + '/v1', OPENAI_MODEL: 'm' }],
};

// Ends by itself, or is ended after the patience of a test.
async function run(name, words, env) {
  const home = fs.mkdtempSync(path.join(os.tmpdir(), `vram-llm-${name}-`));
  const child = spawn(path.join(bin, name), words, { cwd: home, env: { PATH: process.env.PATH, HOME: home, TERM: 'dumb', CI: '1', ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  let out = '';
  for (const s of [child.stdout, child.stderr]) s.on('data', (d) => { out += d; });
  let code = null;
  child.on('exit', (c, signal) => { code = c ?? signal; });
  try {
    await eventually(() => `${name} does not end: ${out.slice(-2000)}`, () => code !== null);
    return { code, out, called: fs.existsSync(path.join(home, 'called.txt')) };
  } finally {
    if (code === null) child.kill('SIGKILL');
    fs.rmSync(home, { recursive: true, force: true });
  }
}

// What the server's log says of requests: "GET /v1/models 200" and how many.
function asked(log) {
  const all = {};
  for (const line of log.split('\n')) {
    const m = /"msg":"([A-Z]+ [^"]*)".*"status":"(\d+)"/.exec(line);
    if (m) all[`${m[1]} ${m[2]}`] = (all[`${m[1]} ${m[2]}`] ?? 0) + 1;
  }
  return all;
}

let failed = 0;
for (const name of process.argv.length > 2 ? process.argv.slice(2) : Object.keys(agents)) {
  const s = await serve({ engine: { words: false, calls: CALLS, ready: { n_ctx: 131072, n_ctx_train: 131072 } }, args: ['--log-format', 'json', '-v'] });
  const faults = [];
  try {
    const r = await run(name, ...agents[name](s.url));
    const requests = asked(s.text());
    console.log(`${name}: ${Object.entries(requests).map(([k, n]) => `${n} × ${k}`).join(', ')}`);
    if (r.code !== 0) faults.push(`it ended with ${r.code}`);
    if (!r.called) faults.push('the call was not run');
    if (!/token4/.test(r.out)) faults.push('the answer is not shown');
    if (Object.keys(requests).some((k) => / 4(00|04)$/.test(k))) faults.push('requests were refused');
    if (!Object.keys(requests).some((k) => /^POST .* 200$/.test(k))) faults.push('it asked nothing');
    if (faults.length) console.log(r.out.slice(-3000), s.text().split('\n').filter((l) => /"status":"4/.test(l)).join('\n'));
  } catch (e) {
    faults.push(e.message);
  } finally {
    await s.stop();
  }
  for (const f of faults) console.log(`FAIL ${name}: ${f}`);
  failed += faults.length;
}
process.exit(failed ? 1 : 0);
