/**
 * The health check of the image `leasehold`: a controller must be ready. Where none listens, a console must answer, or
 * a gateway be ready.
 * Exits with 0 or 1.
 */
const ANSWER_MS_MAX = 3_000;
const { LEASEHOLD_PORT = '4600', LEASEHOLD_CONSOLE_PORT = '4601' } = process.env;
const { LEASEHOLD_GATEWAY_METRICS_LISTEN = '127.0.0.1:4603' } = process.env;
const [, gatewayPort] = /:(\d+)$/u.exec(LEASEHOLD_GATEWAY_METRICS_LISTEN) ?? [];

/** The status of the answer; undefined where nothing listens. */
async function statusOf(url) {
  try {
    return (await fetch(url, { signal: AbortSignal.timeout(ANSWER_MS_MAX) })).status;
  } catch (error) {
    if (error.cause?.code === 'ECONNREFUSED') return undefined;
    throw error;
  }
}

const status =
  (await statusOf(`http://127.0.0.1:${LEASEHOLD_PORT}/readyz`)) ??
  (await statusOf(`http://127.0.0.1:${LEASEHOLD_CONSOLE_PORT}/healthz`)) ??
  (await statusOf(`http://127.0.0.1:${gatewayPort}/readyz`));
process.exitCode = status === 200 ? 0 : 1;
