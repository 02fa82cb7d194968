"""Models of noise: headers of real ones, stretched to their true sizes, and some of our own shapes."""
import os
import subprocess

# name in the table, options of tiny-model
MADE = {
    'dense 3.7 GiB Q8_0': '--layers 16 --embd 4096 --heads 32 --kv 8 --ff 14336 --vocab 32768 --type q8_0',
    'MoE 3.7 GiB MXFP4': '--layers 24 --embd 2048 --heads 16 --kv 2 --ff 768 --experts 64 --used 8 --vocab 8192 --type mxfp4',
    'MoE 12 GiB Q4_0, 128 experts': '--layers 30 --embd 2816 --heads 22 --kv 2 --ff 704 --experts 128 --used 8 --vocab 65536 --type q4_0',
    'MoE 10 GiB MXFP4, 32 experts': '--layers 24 --embd 2880 --heads 45 --kv 9 --ff 2880 --experts 32 --used 4 --vocab 65536 --type mxfp4',
    'MoE 7 GiB Q8_0, 64 experts': '--layers 16 --embd 2048 --heads 16 --kv 16 --ff 1024 --experts 64 --used 8 --vocab 32768 --type q8_0',
    'dense 0.7 GiB f16': '--layers 24 --embd 1024 --heads 16 --kv 4 --ff 4096 --vocab 4096 --type f16',
    'dense 0.4 GiB Q4_K': '--layers 24 --embd 1024 --heads 16 --kv 4 --ff 4096 --vocab 32768 --type q4_K',
}
# name in the table, name in tests/fixtures/models/index.json, file
REAL = {
    'Llama-3.1-8B Q4_K_M': ('llama-3.1-8b', 'Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf'),
    'Qwen3-30B-A3B Q4_K_M (MoE)': ('qwen3-30b-a3b', 'Qwen3-30B-A3B-Q4_K_M.gguf'),
    'Devstral-24B Q5_K_M': ('devstral-small-24b', 'Devstral-Small-2505-Q5_K_M.gguf'),
    'gemma-3-27b Q4_0': ('gemma-3-27b', 'gemma-3-27b-it-q4_0.gguf'),
}
DEMO = 'demo Q8_0'


def make(build, folder, names):
    """The paths of these models; those that are not there yet become sparse files of the true size, then noise."""
    os.makedirs(folder, exist_ok=True)
    paths = {DEMO: 'models/demo.gguf'}
    hollow = []
    for name in names:
        if name in REAL:
            key, file = REAL[name]
            paths[name] = os.path.join(folder, file)
            command = ['tools/stretch', folder, key]
        elif name in MADE:
            paths[name] = os.path.join(folder, name.replace(' ', '-') + '.gguf')
            command = [f'{build}/tests/tiny-model', paths[name], '--hollow', *MADE[name].split()]
        else:
            continue
        if not os.path.exists(paths[name]):
            subprocess.run(command, check=True)
            hollow.append(paths[name])
    if hollow:
        subprocess.run([f'{build}/tests/random-fill', *hollow], check=True)
    return paths
