import { ActionIcon } from '@mantine/core';
import { IconDots } from '@tabler/icons-react';
import { LazyMenu } from './lazy-menu.tsx';
import classes from './row-menu.module.css';

interface RowAct {
  readonly label: string;
  /** Why the act is not possible now; the entry then shows that, and does nothing. */
  readonly whyNot: string | undefined;
  readonly onClick: () => void;
  readonly isDangerous?: boolean;
}

/** The acts on one row. An impossible act is there too, with the reason. */
export function RowMenu({
  of,
  acts,
}: {
  /** What the row is called. */
  readonly of: string;
  readonly acts: readonly RowAct[];
}) {
  return (
    <LazyMenu
      position="bottom-end"
      widthPx={250}
      button={(props) => (
        <ActionIcon {...props} size="sm" aria-label={`Actions for ${of}`}>
          <IconDots size={16} />
        </ActionIcon>
      )}
    >
      {(menu) =>
        acts.map(({ label, whyNot, onClick, isDangerous }) =>
          whyNot === undefined ? (
            <menu.Item
              key={label}
              onClick={onClick}
              className={isDangerous === true ? (classes['dangerous'] ?? '') : ''}
            >
              {label}
            </menu.Item>
          ) : (
            <menu.Item
              key={label}
              aria-disabled
              closeMenuOnClick={false}
              className={classes['disabled'] ?? ''}
            >
              {label}
              <span className={classes['reason']}>{whyNot}</span>
            </menu.Item>
          ),
        )
      }
    </LazyMenu>
  );
}
