import type { EventStream } from '@leasehold/keys-core/events';
import type { Registry } from '@leasehold/service-kit';
import { Gauge } from 'prom-client';

/** Gauges of the event stream, read when the metrics are requested. */
export function addEventGauges(
  registry: Registry,
  stream: Pick<EventStream, 'lag' | 'readerCount'>,
): void {
  new Gauge({
    name: 'leasehold_event_stream_lag_ms',
    help: 'How long an older transaction has held events back; 0 if none does.',
    registers: [registry],
    async collect() {
      this.set((await stream.lag()).lagMs);
    },
  });
  new Gauge({
    name: 'leasehold_event_readers',
    help: 'Readers of the event stream that this controller serves.',
    registers: [registry],
    collect() {
      this.set(stream.readerCount);
    },
  });
}
