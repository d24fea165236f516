// Reimplements the layout in a few lines, to compute each master's share of the keys.

const SLOTS = 16_384;

/** As in src/backend/redis/format/slots.rs. */
const TAGS = "05t 1od 2mz 3z0 41m 51w 63i 7xz 82u 9gd a4f bdz c6z dd4 eet ff0".split(" ").map(slot);

/** @param {number} masters with equal parts of the slots */
export function shares(masters, keys = 20_000) {
  const counts = new Array(masters).fill(0);
  for (let i = 0; i < keys; i++) {
    const own = slot(`orders:${i}`);
    const distances = TAGS.map((tag) => Math.abs(tag - own));
    const nearest = TAGS[distances.indexOf(Math.min(...distances))];
    counts[Math.floor((nearest * masters) / SLOTS)] += 1;
  }
  return counts.map((count) => count / keys);
}

/** CRC-16/XMODEM, as in Redis Cluster. */
function slot(text) {
  let crc = 0;
  for (const byte of Buffer.from(text)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = (crc << 1) ^ (crc & 0x8000 ? 0x1021 : 0);
    crc &= 0xffff;
  }
  return crc % SLOTS;
}
