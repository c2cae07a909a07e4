import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

/** A span as it arrived, with the process that sent it. */
export interface ReceivedSpan {
  readonly service: string;
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  /** Empty for the first of a trace. */
  readonly parentSpanId: string;
  /** As OTLP numbers them: 1 internal, 2 server, 3 client, 4 producer, 5 consumer. */
  readonly kind: number;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly links: readonly { readonly spanId: string }[];
  readonly hasFailed: boolean;
}

/** A receiver of OpenTelemetry's traces over HTTP, in this process. */
export interface TraceReceiver {
  /** For `OTEL_EXPORTER_OTLP_ENDPOINT`. */
  readonly url: string;
  /** What arrived as JSON, in order. */
  readonly spans: readonly ReceivedSpan[];
  /** The content types and texts of all requests. */
  readonly requests: readonly { readonly type: string; readonly text: string }[];
  close(): Promise<void>;
}

/** Starts a receiver. The caller that starts it closes it. */
export async function startTraceReceiver(): Promise<TraceReceiver> {
  const spans: ReceivedSpan[] = [];
  const requests: { type: string; text: string }[] = [];
  const take = async (request: IncomingMessage): Promise<void> => {
    const type = request.headers['content-type'] ?? '';
    const text = (await buffer(request)).toString('latin1');
    requests.push({ type: `${request.url ?? ''} ${type}`, text });
    if (type.startsWith('application/json')) spans.push(...spansIn(JSON.parse(text) as OtlpBody));
  };
  const server = createServer((request, response) => {
    void take(request).then(() => response.setHeader('content-type', 'application/json').end('{}'));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`,
    spans,
    requests,
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

interface OtlpAttribute {
  readonly key: string;
  readonly value: Readonly<Record<string, unknown>>;
}

interface OtlpBody {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly OtlpAttribute[] };
    readonly scopeSpans: readonly {
      readonly spans: readonly (Omit<
        ReceivedSpan,
        'attributes' | 'service' | 'links' | 'parentSpanId'
      > & {
        readonly parentSpanId?: string;
        readonly attributes: readonly OtlpAttribute[];
        readonly links?: ReceivedSpan['links'];
        readonly status: { readonly code?: number };
      })[];
    }[];
  }[];
}

const FAILED = 2;

function spansIn({ resourceSpans }: OtlpBody): ReceivedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map(({ name, traceId, spanId, parentSpanId, kind, attributes, links, status }) => ({
        service: String(valuesOf(resource.attributes)['service.name']),
        name,
        traceId,
        spanId,
        kind,
        parentSpanId: parentSpanId ?? '',
        attributes: valuesOf(attributes),
        links: links ?? [],
        hasFailed: status.code === FAILED,
      })),
    ),
  );
}

function valuesOf(attributes: readonly OtlpAttribute[]): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
}
