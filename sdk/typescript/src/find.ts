// Finds the server as the command line does (docs/cli.md, "Finding the server").
import { ConfigurationError } from './errors.js';

export interface ServerAddress {
  url: string;
  apiKey: string;
  caFile?: string;
}

export interface FindOptions {
  url?: string;
  apiKey?: string;
  context?: string;
  dataDir?: string;
  env?: Record<string, string | undefined>;
}

const lost = (what: string, repair: string, cause?: unknown) => new ConfigurationError(`${what}; ${repair}`, { code: 'configuration', repair, cause });

/** Arguments come first, then a named context, then the environment, then the current context, then a server of this host. */
export async function findServer(options: FindOptions = {}): Promise<ServerAddress> {
  const env = options.env ?? globalThis.process?.env ?? {};
  if (options.context) {
    const found = await contextOf(env, options.context);
    return { ...found, apiKey: options.apiKey ?? found.apiKey };
  }
  const key = options.apiKey || env['FIREBREAK_API_KEY'];
  const url = options.url || env['FIREBREAK_URL'];
  const caFile = env['FIREBREAK_CA_FILE'] || undefined;
  const dataDir = options.dataDir || env['FIREBREAK_DATA_DIR'] || '/var/lib/firebreak';
  if (url) return { url, apiKey: key || (await localKey(dataDir)), caFile };
  const current = (await contexts(env)).current;
  if (current && !options.dataDir && !env['FIREBREAK_DATA_DIR']) {
    const found = await contextOf(env, current);
    return { ...found, apiKey: key || found.apiKey, caFile: caFile ?? found.caFile };
  }
  const about = await serverFile(`${dataDir}/server.json`, `no server is running on ${dataDir}`,
    "start one with 'firebreak serve', set FIREBREAK_URL, or run 'firebreak login URL'");
  return { url: about['url'], apiKey: key || (await localKey(dataDir)), caFile: caFile ?? about['caFile'] };
}

interface Contexts {
  current?: string;
  contexts?: Record<string, ServerAddress>;
}

async function contexts(env: Record<string, string | undefined>): Promise<Contexts> {
  const directory = env['XDG_CONFIG_HOME'] || (env['HOME'] && `${env['HOME']}/.config`);
  if (!directory) return {};
  const file = `${directory}/firebreak/config.json`;
  const text = await readText(file).catch(() => undefined);
  if (text === undefined) return {};
  try {
    return JSON.parse(text);
  } catch (error) {
    throw lost(`${file}: ${(error as Error).message}`, "mend or remove the file, then run 'firebreak login URL'", error);
  }
}

async function contextOf(env: Record<string, string | undefined>, name: string): Promise<ServerAddress> {
  const known = (await contexts(env)).contexts ?? {};
  const found = known[name];
  if (found) return { url: found.url, apiKey: found.apiKey, caFile: found.caFile };
  const names = Object.keys(known).sort().join(', ');
  throw lost(`there is no context '${name}'`, names ? `known are: ${names}` : `make one with 'firebreak login URL --context ${name}'`);
}

async function localKey(dataDir: string): Promise<string> {
  const file = `${dataDir}/credentials.json`;
  return (await serverFile(file, `${file} is not there`, "set FIREBREAK_API_KEY, or run 'firebreak login URL'"))['apiKey'];
}

async function serverFile(file: string, otherwise: string, repair: string): Promise<any> {
  try {
    return JSON.parse(await readText(file));
  } catch (error) {
    if ((error as { code?: string }).code === 'EACCES')
      throw lost(`${file} can be read by root only`, "run as root, set FIREBREAK_URL and FIREBREAK_API_KEY, or run 'firebreak login URL'", error);
    throw lost(otherwise, repair, error);
  }
}

async function readText(file: string): Promise<string> {
  const { readFile } = await import('node:fs/promises');
  return readFile(file, 'utf8');
}
