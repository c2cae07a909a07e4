import dynamic from 'next/dynamic';
import type { ReactElement, ReactNode } from 'react';
import type { MenuLooks, MenuParts } from './loaded-menu.tsx';
import { useOpener, type OpenerProps } from './use-opener.ts';

const LoadedMenu = dynamic(() => import('./loaded-menu.tsx').then((module) => module.LoadedMenu), {
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
