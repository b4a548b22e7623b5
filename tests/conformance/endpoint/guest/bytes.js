// Bodies that both sides can make.
'use strict';
const crypto = require('node:crypto');

// So many MiB in pieces of 64 KiB, no two of them equal.
function* pieces(mib) {
  for (let i = 0; i < mib * 16; ++i) {
    const piece = Buffer.alloc(1 << 16, 'firebreak');
    piece.writeUInt32LE(i);
    yield piece;
  }
}

async function sha256(source) {
  const hash = crypto.createHash('sha256');
  for await (const piece of source) hash.update(piece);
  return hash.digest('hex');
}

module.exports = { pieces, sha256 };
