// What runs in the guest: HTTP/1.1 and WebSockets on 8080, gRPC on 50051; and what it has seen, at /seen.
'use strict';
const http = require('node:http');
const WebSocket = require('ws');
const { Readable } = require('node:stream');
const { serveEcho } = require('./grpc_echo');
const { pieces, sha256 } = require('./bytes');

const seen = { never: 0, left: 0, cutShort: 0, sockets: 0, socketsLeft: 0, pieces: 0 };
let slow; // the last answer of /big

function* counted(mib) {
  for (const piece of pieces(mib)) {
    seen.pieces += 1;
    yield piece;
  }
}

const app = http.createServer((req, res) => {
  const url = new URL(req.url, 'http://x');
  switch (url.pathname) {
    case '/seen':
      return res.end(JSON.stringify({ ...seen, held: slow?.writableNeedDrain ?? false }));
    case '/echo':
      return req.pipe(res);
    case '/sum':
      req.on('error', () => { seen.cutShort += 1; });
      return sha256(req).then((sum) => res.end(sum), () => {});
    case '/big':
      seen.pieces = 0;
      slow = res;
      return Readable.from(counted(Number(url.searchParams.get('mib')))).on('error', () => {}).pipe(res);
    case '/trailers':
      res.setHeader('trailer', 'x-sum');
      res.write('body');
      res.addTrailers({ 'x-sum': '42' });
      return res.end();
    case '/begun':
      return res.write('begun');
    case '/never':
      seen.never += 1;
      return res.on('close', () => { seen.left += 1; });
    case '/cut':
      res.setHeader('content-length', '100');
      return res.write('half', () => res.destroy());
    case '/die':
      return res.destroy();
    default:
      return res.end(`${req.method} ${req.url}`);
  }
});
new WebSocket.Server({ server: app }).on('connection', (socket, req) => {
  seen.sockets += 1;
  socket.on('error', () => {});
  socket.on('close', () => { seen.socketsLeft += 1; });
  socket.on('message', (data, binary) => (req.url === '/die' ? socket.terminate() : socket.send(data, { binary })));
});
// The image is frozen when 8080 is listened on.
serveEcho(50051).then(() => app.listen({ port: 8080, host: '127.0.0.1', backlog: 512 }));
