import type { ApiError } from '~/lib/api/api-error.ts';
import { Notice } from '../states/notice.tsx';
import { CopyableId } from '../text/text.tsx';

/** Why an act was refused, and the incident to look for. */
export function ActFailure({ error }: { readonly error: ApiError | null }) {
  if (error === null) return null;
  return (
    <Notice tone="bad">
      {error.message} <span className="mono">({error.code})</span>
      {error.incidentId === null ? null : (
        <>
          {' '}
          Incident <CopyableId id={error.incidentId} label="incident id" />
        </>
      )}
    </Notice>
  );
}
