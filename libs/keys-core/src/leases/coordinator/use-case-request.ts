import { isLeaseId } from '../../grants/index.ts';
import { LeaseError } from '../../kernel/errors/index.ts';
import { serviceLadder } from '../../kernel/lease/ladder.ts';
import type { GrantRequest } from '../../kernel/lease/outcomes.ts';
import { LIMITS } from '../../kernel/limits.ts';
import { assertResource, joinNamespace } from '../../kernel/resource/resource.ts';
import { assertText, jsonProblem } from '../../kernel/text.ts';
import { assertTtl } from '../acquire/deadlines.ts';
import type { AnyUseCase } from './use-case.ts';

/**
 * The grant request of a use case.
 * @throws {LeaseError} `request.invalid`, `lease.ttl_out_of_range`.
 */
export function requestOf(
  lease: AnyUseCase<never>,
  by: Pick<GrantRequest, 'holder' | 'principal' | 'actor'>,
): GrantRequest {
  const { namespace, key } = lease.scope();
  const leaseId = lease.key();
  const ttlMs = lease.durationMs();
  assertTtl(ttlMs);
  if (!isLeaseId(leaseId)) {
    throw new LeaseError('request.invalid', 'key() must be a UUID', {
      details: { field: 'key' },
    });
  }
  const resource = { face: 'lease', namespace: joinNamespace(namespace), name: key } as const;
  assertResource(resource);
  return {
    ...resource,
    ...by,
    leaseId: leaseId.toLowerCase(),
    tag: '',
    ...aboutOf(lease),
    ladder: serviceLadder(ttlMs),
  };
}

/** The comment and metadata of a use case, as they are stored. */
function aboutOf(lease: AnyUseCase<never>): Pick<GrantRequest, 'comment' | 'metadata'> {
  const comment = lease.comment?.() ?? null;
  assertText('comment', comment ?? '', { bytesMax: LIMITS.commentBytesMax });
  return { comment, metadata: jsonOf(lease.metadata?.()) };
}

function jsonOf(metadata: unknown): unknown {
  if (metadata === undefined) return null;
  const invalid = (problem: string, cause?: unknown): LeaseError =>
    new LeaseError('request.invalid', `metadata ${problem}`, {
      details: { field: 'metadata' },
      cause,
    });
  let json: unknown;
  try {
    json = JSON.parse(JSON.stringify(metadata));
  } catch (error) {
    throw invalid('must be JSON', error);
  }
  const problem = jsonProblem(json, {
    bytesMax: LIMITS.metadataBytesMax,
    depthMax: LIMITS.metadataDepthMax,
  });
  if (problem !== undefined) throw invalid(problem);
  return json;
}
