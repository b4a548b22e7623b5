// Images: what microVMs are made of.
import {
  type Base, type Bases, type Build, type BuildCache, type Image, type ImagePage, type ImageVersion, type ImageVersionDetail, type ImageWithVersions,
  type PostImagesBody, type Pruned, operations,
} from './api.js';
import { packed } from './archive.js';
import { GuestError } from './errors.js';
import { type ProgressCallback, reporter, stepOf } from './progress.js';
import { toBase64 } from './results.js';
import { type Body, type CallOptions, type Transport, pieces, serverEvents } from './transport.js';

export interface BuildOptions extends CallOptions {
  file?: string;
  target?: string;
  args?: Record<string, string>;
  env?: Record<string, string>;
  memoryMib?: number;
  noCache?: boolean;
  ready?: string;
  hooks?: string;
  egress?: string;
  buildEgress?: string;
  pythonContext?: boolean;
  preload?: Record<string, string[]>;
  pruneVersions?: boolean;
  secrets?: Record<string, Uint8Array>;
  progress?: ProgressCallback;
  /** False: answer once the build is ordered. */
  wait?: boolean;
}

const pairs = (values?: Record<string, string>) => values && Object.entries(values).map(([key, value]) => `${key}=${value}`);

export class Images {
  constructor(private readonly transport: Transport) {}

  /** Your own and the system's; `name` is a part of the name. */
  async *list(options: CallOptions & { name?: string } = {}): AsyncGenerator<Image> {
    let pageToken: string | undefined;
    do {
      const page: ImagePage = await this.transport.call(operations.getImages, {}, { query: { name: options.name, pageToken }, signal: options.signal });
      yield* page.items;
      pageToken = page.nextPageToken;
    } while (pageToken);
  }

  get(image: string, options: CallOptions = {}): Promise<ImageWithVersions> {
    return this.transport.call(operations.getImagesImage, { image }, options);
  }

  /** Makes an image from the base root filesystem; answers when it is made, which may take minutes. */
  create(wishes: PostImagesBody, options: CallOptions = {}): Promise<ImageVersion> {
    return this.transport.call(operations.postImages, {}, { body: wishes, ...options });
  }

  async delete(image: string, options: CallOptions = {}): Promise<void> {
    await this.transport.call(operations.deleteImagesImage, { image }, options);
  }

  /**
   * Builds an image from a Dockerfile: `context` is a directory's path, or a tar or zip archive. Each line of the build's log reaches `progress`;
   * without one, a terminal shows a bar. A build that fails throws GuestError.
   */
  async build(image: string, context: string | Exclude<Body, string>, options: BuildOptions = {}): Promise<ImageVersionDetail> {
    const { signal, args, env, preload, secrets, progress, wait, ...rest } = options;
    const made = await this.transport.call<Build>(operations.postImagesImageBuilds, { image }, {
      query: { ...rest, arg: pairs(args), env: pairs(env), preload: preload && Object.entries(preload).map(([language, names]) => `${language}=${names.join(',')}`) },
      content: typeof context === 'string' ? packed(context) : context,
      headers: Object.entries(secrets ?? {}).map(([id, value]) => ['x-build-secret', `${id}=${toBase64(value)}`]),
      signal,
    });
    if (wait !== false && !made.unchanged) await this.follow(made, reporter(progress), signal);
    return this.version(image, made.version, { signal });
  }

  private async follow(made: Build, report: ProgressCallback, signal?: AbortSignal): Promise<void> {
    const what = `building ${made.image}:${made.version}`;
    const response = await this.transport.send(operations.getImagesImageVersionsVersionLog, { image: made.image, version: made.version },
      { query: { follow: true }, headers: [['accept', 'text/event-stream']], signal });
    let [done, total]: [number?, number?] = [];
    let last: string[] = [];
    for await (const [event, data] of serverEvents(this.transport, response)) {
      if (event !== 'log') continue;
      for (const line of data.split('\n').filter(Boolean)) {
        [done, total] = stepOf(line) ?? [done, total];
        last = [...last.slice(-4), line];
        report({ what, line, done, total });
      }
    }
    const version = await this.version(made.image, made.version, { signal });
    report({ what, line: version.state, done: total, total, finished: true });
    if (version.state.endsWith('FAILED'))
      throw new GuestError(`the build of ${made.image}:${made.version} failed: ${version.stateReason ?? last.join('\n')}`, { code: 'guest', data: { log: last, version } });
  }

  version(image: string, version = 'latest', options: CallOptions = {}): Promise<ImageVersionDetail> {
    return this.transport.call(operations.getImagesImageVersionsVersion, { image, version }, options);
  }

  /** What the build printed, as text; with follow until it has ended. */
  async *log(image: string, version = 'latest', options: CallOptions & { follow?: boolean } = {}): AsyncGenerator<string> {
    const response = await this.transport.send(operations.getImagesImageVersionsVersionLog, { image, version },
      { query: { follow: options.follow }, signal: options.signal });
    const decoder = new TextDecoder();
    for await (const piece of pieces(this.transport, response)) yield decoder.decode(piece, { stream: true });
  }

  /** Ends a build that is under way. */
  async cancel(image: string, version: string, options: CallOptions = {}): Promise<void> {
    await this.transport.call(operations.postImagesImageVersionsVersionCancel, { image, version }, options);
  }

  async deleteVersion(image: string, version: string, options: CallOptions = {}): Promise<void> {
    await this.transport.call(operations.deleteImagesImageVersionsVersion, { image, version }, options);
  }

  /** Removes the versions that nobody uses. */
  prune(image: string, options: CallOptions = {}): Promise<Pruned> {
    return this.transport.call(operations.postImagesImagePrune, { image }, options);
  }

  /** What every FROM can name. */
  async bases(options: CallOptions = {}): Promise<Base[]> {
    return (await this.transport.call<Bases>(operations.getBases, {}, options)).items;
  }

  buildCache(options: CallOptions = {}): Promise<BuildCache> {
    return this.transport.call(operations.getBuildCache, {}, options);
  }
}
