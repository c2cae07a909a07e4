/** CLOCK_MONOTONIC in milliseconds: the clock that the witnesses write, the same in all processes. */
export function machineMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
