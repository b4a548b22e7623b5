// Tells how far long work is: to a callback, or as a bar on a terminal.
/** Which of how many steps a line of a build's log begins. */
export function stepOf(line) {
    const match = /^\[(\d+)\/(\d+)\] /.exec(line);
    return match ? [Number(match[1]), Number(match[2])] : undefined;
}
/** A bar that moves, on one line of a terminal. */
export function bar(write) {
    return ({ what, line, done = 0, total, finished }) => {
        // What a guest prints must not steer the terminal.
        let text = (line ?? what).replace(/[\x00-\x1f\x7f-\x9f]/g, ' ').slice(0, 60);
        if (total)
            text = `[${'#'.repeat(Math.floor((30 * done) / total)).padEnd(30)}] ${done} of ${total}  ${text}`;
        write(`\r\x1b[K${text}${finished ? '\n' : ''}`);
    };
}
/** The callback; without one a bar if standard error is a terminal, else nothing. */
export function reporter(callback) {
    if (callback)
        return callback;
    const stderr = globalThis.process?.stderr;
    return stderr?.isTTY ? bar((text) => stderr.write(text)) : () => { };
}
