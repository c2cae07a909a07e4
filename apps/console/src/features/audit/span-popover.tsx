'use client';

import { Popover } from '@mantine/core';
import { OpenerAnchor, useOpenedOnceThere } from '~/ui/menus/opener-anchor.tsx';
import type { Opener } from '~/ui/menus/use-opener.ts';
import type { Span } from './audit-search.ts';
import { SpanForm } from './span-form.tsx';

/** What opens below the button of a `SpanFilter`, which loads it when it is needed. */
export function SpanPopover({
  opener,
  span,
  onChange,
}: {
  readonly opener: Opener;
  readonly span: Span;
  readonly onChange: (span: Span) => void;
}) {
  const isOpen = useOpenedOnceThere(opener);
  return (
    <Popover
      id={opener.props.id}
      opened={isOpen}
      onChange={opener.setOpen}
      position="bottom-start"
      trapFocus
      returnFocus
    >
      <Popover.Target>
        <OpenerAnchor opener={opener} />
      </Popover.Target>
      <Popover.Dropdown aria-label="Time shown">
        {isOpen ? (
          <SpanForm
            span={span}
            onChoose={(next) => {
              onChange(next);
              opener.setOpen(false);
            }}
          />
        ) : null}
      </Popover.Dropdown>
    </Popover>
  );
}
