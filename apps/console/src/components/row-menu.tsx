'use client';

import { ActionIcon, Menu } from '@mantine/core';
import { IconDots } from '@tabler/icons-react';
import classes from './row-menu.module.css';

export interface RowAct {
  readonly label: string;
  /** Why it may not be done now; the entry then says so, and does nothing. */
  readonly whyNot: string | undefined;
  readonly onClick: () => void;
  readonly isDangerous?: boolean;
}

/** What can be done with one row. What cannot is there too, with the reason. */
export function RowMenu({
  of,
  acts,
}: {
  /** What the row is called. */
  readonly of: string;
  readonly acts: readonly RowAct[];
}) {
  return (
    <Menu position="bottom-end" width={250}>
      <Menu.Target>
        <ActionIcon size="sm" aria-label={`Actions for ${of}`}>
          <IconDots size={16} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {acts.map(({ label, whyNot, onClick, isDangerous }) =>
          whyNot === undefined ? (
            <Menu.Item
              key={label}
              onClick={onClick}
              className={isDangerous === true ? (classes['dangerous'] ?? '') : ''}
            >
              {label}
            </Menu.Item>
          ) : (
            <Menu.Item
              key={label}
              aria-disabled
              closeMenuOnClick={false}
              className={classes['disabled'] ?? ''}
            >
              {label}
              <span className={classes['reason']}>{whyNot}</span>
            </Menu.Item>
          ),
        )}
      </Menu.Dropdown>
    </Menu>
  );
}
