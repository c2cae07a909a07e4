import { useEffect, useState, type ReactNode } from 'react';
import { createPortal } from 'react-dom';
import classes from './foot.module.css';

const PLACE_ID = 'foot';

/** The end of a page, which stays in sight at the foot of the window; see {@link Foot}. */
export function FootPlace() {
  return <div id={PLACE_ID} className={classes['foot']} />;
}

/**
 * What comes and goes by itself stands at the foot of the window, after what the page shows: nothing moves under
 * the pointer, nothing is covered for good, and several of them stand one above the other.
 */
export function Foot({ children }: { readonly children: ReactNode }) {
  const [place, setPlace] = useState<HTMLElement | null>(null);
  useEffect(() => setPlace(document.getElementById(PLACE_ID)), []);
  return place === null ? null : createPortal(children, place);
}
