// Images to send with the next message: chosen, pasted or dropped, scaled down, shown, removed again.
import { fill, h } from './dom.js';

export const MOST = 16; // in one request, as the server has it
const SIDES = [1536, 1024, 768, 512, 256]; // pixels; models look at less
const isPicture = /^data:image\/(png|jpeg);base64,[A-Za-z0-9+/]+=*$/;

export const kept = (list) => (Array.isArray(list) ? list.filter((p) => typeof p === 'string' && isPicture.test(p)).slice(0, MOST) : []);

// As PNG or JPEG in a data: URL of `most` letters at most, upright, and without what a camera wrote beside it.
async function shrink(file, most) {
  const bitmap = await createImageBitmap(file);
  try {
    for (const side of SIDES) {
      const scale = Math.min(1, side / Math.max(bitmap.width, bitmap.height));
      const canvas = h('canvas', { width: Math.max(1, Math.round(bitmap.width * scale)), height: Math.max(1, Math.round(bitmap.height * scale)) });
      const pen = canvas.getContext('2d');
      pen.imageSmoothingQuality = 'high';
      pen.fillStyle = 'white'; // behind what is transparent
      pen.fillRect(0, 0, canvas.width, canvas.height);
      pen.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
      for (const type of file.type === 'image/png' ? ['image/png', 'image/jpeg'] : ['image/jpeg']) {
        const url = canvas.toDataURL(type, 0.88);
        if (url.length <= most && isPicture.test(url)) return url;
      }
    }
  } finally {
    bitmap.close();
  }
  throw new Error('too large');
}

export class Pictures {
  // changed(): something is to be shown; say(text): a sentence for the user, '' when all is well; taken(): pictures of the conversation
  constructor({ changed, say, taken }) {
    Object.assign(this, { changed, say, taken });
    this.list = [];
    this.busy = 0; // being made smaller
    this.turn = 0; // what was asked for before the last clear() is not added
    this.most = 1 << 20;
    this.root = h('ul', { class: 'thumbs', 'aria-label': 'Images to send', hidden: true });
    this.file = h('input', { type: 'file', accept: 'image/*', multiple: true, hidden: true, id: 'ch-file', 'aria-label': 'Images to send',
      on: { change: () => { this.add(this.file.files); this.file.value = ''; } } });
    this.button = h('button', { type: 'button', class: 'attach', id: 'ch-attach', 'aria-label': 'Attach an image', title: 'Attach an image, or paste or drop one', hidden: true,
      on: { click: () => this.file.click() } });
  }

  // A request of several pictures must stay below what the server takes.
  setLimit(bytes) { this.most = Math.min(1 << 20, Math.floor(bytes / 4)); }

  set(list) {
    this.turn++;
    this.list = [...list];
    this.show();
  }

  take() {
    const list = this.list;
    this.set([]);
    return list;
  }

  async add(files) {
    const turn = this.turn;
    this.say('');
    for (const file of [...files]) {
      if (this.list.length + this.taken() >= MOST) { this.say(`A conversation can have at most ${MOST} images.`); break; }
      this.busy++;
      this.changed();
      let url = null;
      try {
        url = await shrink(file, this.most);
      } catch {
        this.say(`${file.name || 'This file'} is not an image that this browser can read.`);
      }
      this.busy--;
      if (url && turn === this.turn) this.list.push(url);
      this.show();
    }
  }

  remove(i) {
    this.list.splice(i, 1);
    this.say('');
    this.show();
    (this.root.querySelectorAll('button')[Math.min(i, this.list.length - 1)] ?? this.button).focus();
  }

  show() {
    fill(this.root, this.list.map((url, i) => h('li', {}, h('img', { src: url, alt: `Image ${i + 1}` }),
      h('button', { type: 'button', class: 'remove', 'aria-label': `Remove image ${i + 1}`, on: { click: () => this.remove(i) } }, '×'))));
    this.root.hidden = this.list.length === 0;
    this.changed();
  }

  // Pasting and dropping anywhere in `area`, while `able()`.
  listen(area, able) {
    const pictures = (data) => [...(data?.files ?? [])].filter((f) => f.type.startsWith('image/'));
    area.addEventListener('paste', (e) => {
      const files = able() ? pictures(e.clipboardData) : [];
      if (!files.length) return; // text goes where it always goes
      e.preventDefault();
      this.add(files);
    });
    const over = (e) => {
      if (!able() || !e.dataTransfer?.types.includes('Files')) return;
      e.preventDefault();
      area.classList.toggle('dropping', e.type === 'dragover');
      if (e.type !== 'drop') return;
      const files = [...e.dataTransfer.files];
      if (files.length) this.add(files);
    };
    for (const event of ['dragover', 'dragleave', 'drop']) area.addEventListener(event, over);
  }
}
