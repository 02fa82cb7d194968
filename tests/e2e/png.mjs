// PNG files as tests need them: painted, or small files of pictures that are very large.
import zlib from 'node:zlib';

function chunk(type, data) {
  const body = Buffer.concat([Buffer.from(type), data]);
  const out = Buffer.alloc(body.length + 8);
  out.writeUInt32BE(data.length);
  body.copy(out, 4);
  out.writeUInt32BE(zlib.crc32 ? zlib.crc32(body) : crc(body), body.length + 4);
  return out;
}
function crc(bytes) {
  let c = ~0;
  for (const b of bytes) {
    c ^= b;
    for (let k = 0; k < 8; k++) c = c & 1 ? (c >>> 1) ^ 0xEDB88320 : c >>> 1;
  }
  return ~c >>> 0;
}
function file(w, h, depth, color, rows) {
  const head = Buffer.alloc(13);
  head.writeUInt32BE(w, 0);
  head.writeUInt32BE(h, 4);
  head.set([depth, color, 0, 0, 0], 8);
  return Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), chunk('IHDR', head), chunk('IDAT', zlib.deflateSync(rows)), chunk('IEND', Buffer.alloc(0))]);
}

// paint(x, y) returns red, green, blue
export function png(w, h, paint) {
  const rows = Buffer.alloc(h * (1 + 3 * w));
  for (let y = 0; y < h; y++) for (let x = 0; x < w; x++) Buffer.from(paint(x, y).map((v) => v & 255)).copy(rows, y * (1 + 3 * w) + 1 + 3 * x);
  return file(w, h, 8, 2, rows);
}
// black, one bit for each pixel: a few kB that a decoder makes w * h * 3 bytes of
export const blackPng = (w, h) => file(w, h, 1, 0, Buffer.alloc(h * (1 + Math.ceil(w / 8))));

export const dataUrl = (bytes, type = 'png') => `data:image/${type};base64,${bytes.toString('base64')}`;
export const picture = (bytes) => ({ type: 'image_url', image_url: { url: dataUrl(bytes) } });
