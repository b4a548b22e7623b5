// Debian's chromium against the endpoint: the shell from a page, and what pages of applications may do.
'use strict';
const { test, before, after } = require('node:test');
const assert = require('node:assert');
const crypto = require('node:crypto');
const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const tls = require('node:tls');
const { once } = require('node:events');
const { chromium } = require('playwright-core');
const { Endpoint, listen } = require('./support');

let endpoint, app, port, pages, pagesPort, browser, context;

// The key of the endpoint's certificate, as chromium wants it; Node has checked the certificate with the endpoint's CA.
async function keyHash() {
  const [host, number] = endpoint.authority.split(':');
  const socket = tls.connect({ host, port: Number(number), ca: endpoint.ca });
  await once(socket, 'secureConnect');
  const key = new crypto.X509Certificate(socket.getPeerCertificate().raw).publicKey.export({ type: 'spki', format: 'der' });
  socket.destroy();
  return crypto.createHash('sha256').update(key).digest('base64');
}

before(async () => {
  endpoint = await Endpoint.start();
  const shell = fs.readFileSync(path.join(__dirname, 'shell.html'));
  pages = http.createServer((req, res) => res.setHeader('content-type', 'text/html').end(shell));
  pagesPort = await listen(pages);
  app = http.createServer((req, res) => {
    res.setHeader('content-type', 'text/html');
    res.setHeader('set-cookie', 'seen=1; Path=/');
    res.end('<title>of the application</title><script>document.title = "ran"</script>');
  });
  port = await listen(app);
  browser = await chromium.launch({
    executablePath: '/usr/bin/chromium',
    args: [
      '--no-sandbox', // it runs as root, and loads only pages of this test
      `--ignore-certificate-errors-spki-list=${await keyHash()}`,
      '--host-resolver-rules=MAP *.box.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1',
    ],
  });
  context = await browser.newContext();
  context.setDefaultTimeout(60_000);
});
after(async () => {
  await browser?.close();
  for (const server of [app, pages]) {
    server.closeAllConnections();
    server.close();
  }
  assert.equal(await endpoint.stop(), 0);
});

const shellToken = () => endpoint.token('8022', { kind: 'shell' });

// The page is of another origin than the endpoint: it is the token that lets it in.
async function openShell(token) {
  const page = await context.newPage();
  await page.goto(`http://127.0.0.1:${pagesPort}/`);
  await page.fill('[name=endpoint]', endpoint.base.replace('https', 'wss'));
  await page.fill('[name=token]', token);
  await page.click('button');
  return page;
}
const shows = (page, id, pattern) => page.locator(`#${id}`, { hasText: pattern }).waitFor();

test('a shell in a page: typing, output, resizing, the end', async () => {
  const page = await openShell(await shellToken());
  await page.setViewportSize({ width: 1110, height: 660 });
  await shows(page, 'state', 'lambda-microvms session_init');
  await page.focus('#screen');
  await page.keyboard.type('echo $TERM 6*7=$((6*7))\n');
  await shows(page, 'screen', 'xterm 6*7=42');
  await page.keyboard.type('echo size $(stty size)\n');
  await shows(page, 'screen', 'size 33 111');
  await page.setViewportSize({ width: 900, height: 500 });
  await page.keyboard.type('echo now $(stty size)\n');
  await shows(page, 'screen', 'now 25 90');
  await page.keyboard.type('exit\n');
  await shows(page, 'state', 'closed 1000 shell exited');
  await page.close();
});

test('a page without a shell token gets none', async () => {
  for (const token of ['', 'nonsense', await endpoint.token('8022', { kind: 'shell', whose: 'OTHER' })]) {
    const page = await openShell(token);
    await shows(page, 'state', 'closed 1006');
    await page.close();
  }
});

// What a page of an application finds around itself.
async function looksAround(url) {
  const page = await context.newPage();
  await page.setExtraHTTPHeaders({ 'x-aws-proxy-auth': await endpoint.token(port), 'x-aws-proxy-port': String(port) });
  await page.goto(url);
  assert.equal(await page.title(), 'ran');
  const found = await page.evaluate(async () => {
    const tries = async (action) => { try { await action(); return true; } catch { return false; } };
    return {
      origin: self.origin,
      cookie: await tries(() => document.cookie),
      storage: await tries(() => localStorage.setItem('a', 'b')),
      reads: await tries(() => fetch(location.href)),
    };
  });
  await page.close();
  return found;
}

test('a page in path style has no origin: no cookies, no storage, no reading of its neighbours', async () => {
  assert.deepEqual(await looksAround(`${endpoint.base}/`), { origin: 'null', cookie: false, storage: false, reads: false });
  const names = async (url) => (await context.cookies(url)).map((cookie) => cookie.name);
  assert.deepEqual(await names(`${endpoint.base}/`), ['seen']);
  assert.deepEqual(await names(`${endpoint.url}/vm/${crypto.randomUUID()}/`), []);
});

test('a page in host style is an origin of its own', async () => {
  const origin = `https://${endpoint.endpointId}.box.test:${endpoint.authority.split(':')[1]}`;
  assert.deepEqual(await looksAround(`${origin}/`), { origin, cookie: true, storage: true, reads: true });
});
