import { SegmentedControl } from '@mantine/core';
import type { RevokeMode } from './revoke/revoke-consequences.ts';

/** The choice between the two ways to end something: the same in every dialog. */
export function ModeChoice({
  mode,
  isOfMany = false,
  isGracefulOver = false,
  onChange,
}: {
  readonly mode: RevokeMode;
  readonly isOfMany?: boolean;
  /** It is being ended gracefully already. */
  readonly isGracefulOver?: boolean;
  readonly onChange: (mode: RevokeMode) => void;
}) {
  const it = isOfMany ? 'them' : 'it';
  return (
    <SegmentedControl
      aria-label="Mode"
      fullWidth
      data={[
        { value: 'graceful', label: `Graceful: let ${it} stop`, disabled: isGracefulOver },
        { value: 'force', label: `Force: end ${it} now` },
      ]}
      value={mode}
      onChange={(value) => onChange(value === 'force' ? 'force' : 'graceful')}
    />
  );
}
