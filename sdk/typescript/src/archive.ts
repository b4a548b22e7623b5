// Directories of this computer as tar archives (ustar, with PAX headers for long names).

const encoder = new TextEncoder();

function header(name: string, mode: number, size: number, type: string): Uint8Array {
  const block = new Uint8Array(512);
  const put = (at: number, text: string) => block.set(encoder.encode(text), at);
  put(0, name);
  put(100, (mode & 0o7777).toString(8).padStart(7, '0'));
  put(108, '0000000');
  put(116, '0000000');
  put(124, size.toString(8).padStart(11, '0'));
  put(136, '00000000000');
  put(148, '        ');
  put(156, type);
  put(257, 'ustar\0' + '00');
  put(148, block.reduce((sum, byte) => sum + byte, 0).toString(8).padStart(6, '0') + '\0 ');
  return block;
}

const padded = (size: number) => new Uint8Array((512 - (size % 512)) % 512);

/** The headers of one entry: a name of more than 100 bytes is in a PAX header before. */
function* entry(name: string, mode: number, size: number, type: string): Generator<Uint8Array> {
  if (encoder.encode(name).length > 100) {
    const text = ` path=${name}\n`;
    const bytes = encoder.encode(text).length;
    let length = bytes + String(bytes).length;
    length = bytes + String(length).length;
    const record = encoder.encode(`${length}${text}`);
    yield header('PaxHeader', 0o644, record.length, 'x');
    yield record;
    yield padded(record.length);
    name = [...name].slice(-20).join('');
  }
  yield header(name, mode, size, type);
}

/** What is in a directory: files and directories; links and devices are left out. */
export async function* pack(directory: string, below = ''): AsyncGenerator<Uint8Array> {
  const { readdir, stat, open } = await import('node:fs/promises');
  for (const each of (await readdir(directory, { withFileTypes: true })).sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const path = `${directory}/${each.name}`;
    const name = below + each.name;
    if (each.isDirectory()) {
      yield* entry(`${name}/`, (await stat(path)).mode, 0, '5');
      yield* pack(path, `${name}/`);
    } else if (each.isFile()) {
      const file = await open(path);
      try {
        const { size, mode } = await file.stat();
        yield* entry(name, mode, size, '0');
        let left = size;
        for await (const piece of file.createReadStream({ autoClose: false })) {
          yield (piece as Uint8Array).subarray(0, left);
          left -= Math.min(left, (piece as Uint8Array).length);
        }
        if (left > 0) throw new Error(`${path} became shorter while it was read`);
        yield padded(size);
      } finally {
        await file.close();
      }
    }
  }
  if (!below) yield new Uint8Array(1024);
}

/** The archive as a body of a request. */
export function packed(directory: string): ReadableStream<Uint8Array> {
  const source = pack(directory);
  return new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await source.next();
        if (done) controller.close();
        else if (value.length > 0) controller.enqueue(value);
        else await this.pull!(controller);
      } catch (error) {
        controller.error(error);
      }
    },
    async cancel() { await source.return(undefined); },
  });
}
