import { ActionIcon } from '@mantine/core';
import { IconDots } from '@tabler/icons-react';
import dynamic from 'next/dynamic';
import type { ReactElement, ReactNode } from 'react';
import type { MenuLooks, MenuParts } from './floating.tsx';
import { type OpenerProps, useOpener } from './lazy.tsx';
import classes from './menus.module.css';

const LoadedMenu = dynamic(() => import('./floating.tsx').then((module) => module.LoadedMenu), {
  ssr: false,
});

/**
 * A menu below a button. Its code is loaded when the pointer or the focus reaches the button; click,
 * Enter, Space and the arrow down open it, and the focus returns to the button.
 */
export function LazyMenu({
  button,
  children,
  ...looks
}: MenuLooks & {
  /** The button, with what makes it open the menu. */
  readonly button: (props: OpenerProps) => ReactElement;
  readonly children: (menu: MenuParts) => ReactNode;
}) {
  const opener = useOpener('menu');
  return (
    <>
      {button(opener.props)}
      {opener.isWanted ? (
        <LoadedMenu {...looks} opener={opener}>
          {children}
        </LoadedMenu>
      ) : null}
    </>
  );
}

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
