import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

type Numbers = Readonly<Record<string, number>>;

/** Makes the instruments of a registry. All names begin with `leasehold_`. */
export function instrumentsOf(registry: Registry) {
  const registers = [registry];
  const named = (name: string, help: string) => ({ name: `leasehold_${name}`, help, registers });
  return {
    counter: <Label extends string>(name: string, help: string, labelNames: Label[]) =>
      new Counter({ ...named(name, help), labelNames }),

    histogram: <Label extends string>(
      name: string,
      help: string,
      shape: { labelNames: Label[]; buckets: number[] },
    ) => new Histogram({ ...named(name, help), ...shape }),

    /** A number that is read when the metrics are requested. */
    gauge: (name: string, help: string, read: () => number | Promise<number>) =>
      new Gauge({
        ...named(name, help),
        async collect() {
          this.set(await read());
        },
      }),

    /** Numbers by the value of one label, which are read when the metrics are requested. */
    gauges: (
      name: string,
      help: string,
      by: { label: string; read: () => Numbers | Promise<Numbers> },
    ) =>
      new Gauge({
        ...named(name, help),
        labelNames: [by.label],
        async collect() {
          for (const [value, number] of Object.entries(await by.read())) {
            this.labels(value).set(number);
          }
        },
      }),
  };
}
