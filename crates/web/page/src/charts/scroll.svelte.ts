/** Scrolls a frame to its end, at first and whenever its extent changes: what is latest matters, and a narrow screen begins with it. */
export function beginAtEnd(frame: () => HTMLElement | undefined, extent: () => number): void {
  $effect(() => {
    const shown = frame();
    if (shown && extent()) shown.scrollLeft = shown.scrollWidth;
  });
}
