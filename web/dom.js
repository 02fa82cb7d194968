// Elements without markup in strings: text from a model or a file can only become text.

const SVG = 'http://www.w3.org/2000/svg';

function build(node, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === 'on') for (const [event, call] of Object.entries(value)) node.addEventListener(event, call);
    else if (name === 'style') for (const [key, text] of Object.entries(value)) node.style.setProperty(key, text);
    else if (name === 'value') node.value = value;
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return node;
}

export const h = (tag, props, ...children) => build(document.createElement(tag), props, children);
export const svg = (tag, props, ...children) => build(document.createElementNS(SVG, tag), props, children);
export const fill = (node, ...children) => {
  node.replaceChildren(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
};

export const count = (n) => Math.round(n).toLocaleString('en-US');
export const mib = (bytes) => `${bytes === 0 ? '0' : bytes < 10485760 ? (bytes / 1048576).toFixed(2) : count(bytes / 1048576)} MiB`;
export const gib = (bytes) => `${(bytes / 1073741824).toFixed(bytes < 1048576 * 10240 ? 2 : 1)} GiB`;
export const size = (bytes) => (bytes < 1048576 * 1024 ? mib(bytes) : gib(bytes));
export const rate = (n) => (n === 0 ? '0' : n >= 100 ? count(n) : n >= 10 ? n.toFixed(1) : n.toFixed(2));
export const shortName = (name) => name.replace(/^NVIDIA (GeForce )?|^AMD (Radeon )?|^Intel(\(R\))? /, '').replace(/ GPU$/, '');

// As people write one: the server's messages begin small and end without a full stop.
export const sentence = (text) => (text ? text[0].toUpperCase() + text.slice(1) + (/[.!?…]$/.test(text) ? '' : '.') : '');

export function duration(s) {
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}

// A button that copies, and says so for a moment.
export function copyButton(text, label = 'Copy') {
  const button = h('button', { type: 'button', class: 'small' }, label);
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(text());
      button.textContent = 'Copied';
    } catch {
      button.textContent = 'Select and copy by hand';
    }
    setTimeout(() => { button.textContent = label; }, 1500);
  });
  return button;
}

export function debounce(ms, call) {
  let timer;
  return () => { clearTimeout(timer); timer = setTimeout(call, ms); };
}
