// Reports node:test results the way GoogleTest does: lines for people on stdout, and XML for tools/run-tests where
// GTEST_OUTPUT=xml:FILE names it.
import { writeFileSync } from 'node:fs';

const escape = (text) =>
  String(text).replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]);

export default async function* report(source) {
  const cases = [];
  for await (const { type, data } of source) {
    if (type === 'test:diagnostic' || type === 'test:stderr' || type === 'test:stdout') {
      if (data.message && type !== 'test:diagnostic') yield data.message;
      continue;
    }
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    if (/does not match/.test(data.skip)) continue;
    // A file or suite is not a case of its own, unless it failed by itself.
    const container = data.details?.type === 'suite' || /\.mjs$/.test(data.name);
    if (container && type === 'test:pass') continue;
    const error = data.details?.error;
    if (container && error?.failureType === 'subtestsFailed') continue;
    const name = data.name.replace(/\s+/g, ' ');
    cases.push({ name, skipped: data.skip !== undefined, failure: type === 'test:fail' ? error : undefined });
    yield `[ ${type === 'test:fail' ? ' FAILED ' : data.skip !== undefined ? 'SKIPPED ' : '     OK '} ] ${name}\n`;
    if (type === 'test:fail') yield `${error?.cause?.stack ?? error?.cause ?? error}\n`;
  }
  const output = process.env.GTEST_OUTPUT ?? '';
  if (!output.startsWith('xml:')) return;
  const failures = cases.filter((each) => each.failure).length;
  const rows = cases.map(({ name, skipped, failure }) => {
    const inside = failure ? `\n<failure message="${escape(failure.cause?.message ?? failure.message)}"/>` : skipped ? '\n<skipped/>' : '';
    return `<testcase name="${escape(name)}" classname="conformance">${inside}\n</testcase>`;
  });
  writeFileSync(output.slice(4), `<testsuites tests="${cases.length}" failures="${failures}">\n${rows.join('\n')}\n</testsuites>\n`);
}
