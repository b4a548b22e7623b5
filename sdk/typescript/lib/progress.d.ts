export interface Progress {
    /** What is being done. */
    what: string;
    /** A line of its log. */
    line?: string;
    done?: number;
    total?: number;
    finished?: boolean;
}
export type ProgressCallback = (progress: Progress) => void;
/** Which of how many steps a line of a build's log begins. */
export declare function stepOf(line: string): [number, number] | undefined;
/** A bar that moves, on one line of a terminal. */
export declare function bar(write: (text: string) => void): ProgressCallback;
/** The callback; without one a bar if standard error is a terminal, else nothing. */
export declare function reporter(callback?: ProgressCallback): ProgressCallback;
