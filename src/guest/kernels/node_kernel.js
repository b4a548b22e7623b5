// The interpreter of a node context (docs/agent-protocol.md "data: contexts"). Runs as a process of the tenant; the agent is
// on descriptor 0. No dependencies; Node 16 and later.
'use strict';
(() => {
  const fs = require('fs');
  const net = require('net');
  const repl = require('repl');
  const util = require('util');
  const { PassThrough, Readable, Writable } = require('stream');

  const kMaxItem = 32 << 20;
  const kMaxText = 1 << 20;
  const kMaxLines = 400;

  const channel = new net.Socket({ fd: 0, readable: true, writable: true });
  Object.defineProperty(process, 'stdin', { value: Readable.from([]), configurable: true });
  channel.on('close', () => process.exit(0));
  channel.on('error', () => process.exit(0));

  let running = null; // {stop} of the code that runs
  let index = 0;

  // Writes to pipes may be queued: what was printed goes out before what is said about it.
  const flush = () =>
    Promise.all(
      [process.stdout, process.stderr].map((stream) => new Promise((done) => stream.write('', () => done()))),
    );
  let sent = Promise.resolve();
  const send = (type, body) => {
    const text = Buffer.from(body === undefined ? '' : JSON.stringify(body));
    const head = Buffer.from(type + text.length.toString(16).padStart(8, '0'));
    sent = sent.then(flush).then(() => new Promise((done) => channel.write(Buffer.concat([head, text]), () => done())));
    return sent;
  };

  const item = (type, data, main) => {
    const body = { type, main, index, data };
    if (type === 'text' && data.length > kMaxText) {
      body.data = data.slice(0, kMaxText);
      body.truncated = true;
    }
    if (JSON.stringify(body).length > kMaxItem - 4096) {
      process.stderr.write(`firebreak: a result of type ${type} is too large\n`);
      return;
    }
    send('I', body);
  };

  const show = (value, main) => {
    index += 1;
    item('text', util.inspect(value), main);
    for (const type of ['html', 'markdown', 'svg', 'png', 'json']) {
      const method = value === null || typeof value !== 'object' ? undefined : value[`_repr_${type}_`];
      if (typeof method !== 'function') continue;
      try {
        const data = method.call(value);
        if (data === undefined || data === null) continue;
        item(type, Buffer.isBuffer(data) ? data.toString('base64') : data, main);
      } catch (error) {
        process.stderr.write(`_repr_${type}_ failed: ${error}\n`);
      }
    }
  };

  const report = (error) => {
    const known = util.types.isNativeError(error) || error instanceof Error;
    const stack = known ? String(error.stack).split('\n') : [util.inspect(error)];
    const own = stack.findIndex((line) => line.includes('evalmachine.<anonymous>') || line.includes('[eval]'));
    const lines = (own < 0 ? stack : stack.slice(0, own)).filter((line) => !/\bnode:|\(<anonymous>\)/.test(line));
    send('E', {
      name: known ? String(error.name) : typeof error,
      message: (known ? String(error.message) : util.inspect(error)).slice(0, 1 << 16),
      traceback: lines.slice(0, kMaxLines),
    });
  };

  const server = repl.start({
    prompt: '',
    input: new PassThrough(),
    output: new Writable({ write: (chunk, encoding, done) => done() }),
    terminal: false,
    useGlobal: true,
  });
  global.display = (...values) => values.forEach((value) => show(value, false));

  class Interrupted extends Error {}
  // Reaches code that waits. A loop that never waits is not stopped by it: the options of the engine that would do so take
  // this handler away for a moment, and a signal in that moment ends the process.
  process.on('SIGINT', () => {
    if (running) running.stop();
  });
  const complain = (error) => process.stderr.write(`Uncaught ${util.inspect(error)}\n`);
  // What code throws while it is evaluated is given to the domain, not to the callback.
  server._domain.removeAllListeners('error');
  server._domain.on('error', (error) => {
    if (running && running.evaluating) running.fail(error);
    else complain(error);
  });
  const evaluate = (code, name) =>
    new Promise((resolve, reject) => {
      running = { evaluating: true, fail: reject, stop: () => reject(new Interrupted('interrupted')) };
      server.eval(code.endsWith('\n') ? code : code + '\n', server.context, name, (error, value) => {
        if (error) reject(error instanceof repl.Recoverable ? error.err : error);
        else resolve(value);
      });
      running.evaluating = false;
    });

  let count = 0;
  const run = async (code) => {
    count += 1;
    index = 0;
    let status = 'ok';
    let stopped = false;
    running = { stop: () => (stopped = true) };
    await send('B');
    try {
      if (stopped) throw new Interrupted('interrupted');
      const value = await evaluate(code, `<cell ${count}>`);
      if (value !== undefined) {
        global._ = value;
        show(value, true);
      }
    } catch (error) {
      stopped = error instanceof Interrupted;
      status = stopped ? 'interrupted' : 'error';
      if (stopped) send('E', { name: 'KeyboardInterrupt', message: 'interrupted', traceback: [] });
      else report(error);
    }
    running = null;
    send('D', { status });
  };

  process.on('uncaughtException', complain);
  process.on('unhandledRejection', complain);
  // The engine's own generator cannot be seeded, so after a wake another one stands in for it.
  process.on('SIGUSR2', () => {
    // From the kernel: the state of the library's generator is the same in every copy.
    const state = new BigUint64Array(2);
    const random = fs.openSync('/dev/urandom', 'r');
    fs.readSync(random, state);
    fs.closeSync(random);
    Math.random = () => {
      let a = state[0];
      const b = state[1];
      state[0] = b;
      a ^= BigInt.asUintN(64, a << 23n);
      a ^= a >> 17n;
      a ^= b ^ (b >> 26n);
      state[1] = a;
      return Number(BigInt.asUintN(64, a + b) >> 11n) / 2 ** 53;
    };
  });

  // What is to be there from the start; without one of them this interpreter is of no use.
  const load = (modules) => {
    for (const name of modules) {
      try {
        require(name);
      } catch (error) {
        fs.writeSync(2, `cannot load ${name}: ${String(error).split('\n')[0]}\n`);
        process.exit(1);
      }
    }
  };

  let input = Buffer.alloc(0);
  let loaded = false;
  let queue = Promise.resolve();
  channel.on('data', (bytes) => {
    input = Buffer.concat([input, bytes]);
    while (input.length >= 8) {
      const size = parseInt(input.subarray(0, 8).toString(), 16);
      if (input.length < 8 + size) break;
      const code = input.subarray(8, 8 + size).toString();
      input = input.subarray(8 + size);
      if (loaded) {
        queue = queue.then(() => run(code));
        continue;
      }
      loaded = true;
      load(JSON.parse(code).modules);
      send('R');
    }
  });
})();
