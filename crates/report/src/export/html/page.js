'use strict';
// Values under the pointer or by arrow keys, and lines switched on and off. One picture of an album is shown at a time.
for (const figure of document.querySelectorAll('figure.picture')) {
  const drawing = figure.querySelector('.drawing');
  const svg = drawing.querySelector('svg');
  const tip = drawing.querySelector('.tip');
  const ring = svg.querySelector('.here');
  const lines = [...svg.querySelectorAll('.line')].map((group) => ({ group, label: group.dataset.label, points: null }));
  let at = null;

  const points = (line) => line.points ??= (line.group.dataset.values || '').split('\n').filter(Boolean).map((text) => {
    const [x, y, ...says] = text.split('\t');
    return { x: Number(x), y: Number(y), says: says.join(' ') };
  });
  const shown = () => lines.filter((line) => !line.group.classList.contains('off') && points(line).length);

  const show = (line, index) => {
    at = { line, index };
    const point = points(line)[index];
    const name = document.createElement('strong');
    name.textContent = line.label;
    tip.replaceChildren(...(point.says.startsWith(line.label) ? [] : [name]), point.says);
    tip.hidden = false;
    ring.setAttribute('cx', point.x);
    ring.setAttribute('cy', point.y);
    ring.classList.add('on');
    const box = svg.getBoundingClientRect();
    const scale = box.width / svg.viewBox.baseVal.width;
    const x = point.x * scale, y = point.y * scale;
    const left = drawing.scrollLeft, right = left + drawing.clientWidth - tip.offsetWidth;
    tip.style.left = `${Math.max(left, Math.min(x + 14, right))}px`;
    tip.style.top = `${y + 14 + tip.offsetHeight > box.height ? Math.max(0, y - 14 - tip.offsetHeight) : y + 14}px`;
  };
  const hide = () => { tip.hidden = true; ring.classList.remove('on'); at = null; };

  svg.addEventListener('pointermove', (event) => {
    const box = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / box.width;
    const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
    let best = null;
    for (const line of shown()) {
      points(line).forEach((point, index) => {
        const distance = (point.x - x) ** 2 + (point.y - y) ** 2;
        if (!best || distance < best.distance) best = { line, index, distance };
      });
    }
    if (best && best.distance < (60 * scale) ** 2) show(best.line, best.index); else hide();
  });
  svg.addEventListener('pointerleave', hide);
  svg.addEventListener('blur', hide);
  svg.addEventListener('keydown', (event) => {
    const step = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
    if (event.key === 'Escape') hide();
    if (!step) return;
    const all = shown();
    if (!all.length) return;
    event.preventDefault();
    const place = at ? all.indexOf(at.line) : -1;
    if (place < 0) return show(all[0], 0);
    const line = all[(place + step[1] + all.length) % all.length];
    show(line, Math.max(0, Math.min(points(line).length - 1, at.index + step[0])));
  });

  const boxes = [...figure.querySelectorAll('.legend input')];
  const apply = (box) => lines[Number(box.dataset.line)]?.group.classList.toggle('off', !box.checked);
  for (const box of boxes) {
    box.addEventListener('change', () => { apply(box); hide(); });
    // A browser may restore boxes when the page is loaded again.
    apply(box);
  }
  for (const button of figure.querySelectorAll('.legend button')) {
    button.addEventListener('click', () => {
      for (const box of boxes) { box.checked = button.dataset.show === 'all'; apply(box); }
      hide();
    });
  }
}
for (const album of document.querySelectorAll('.album')) {
  const choice = album.querySelector('.choice');
  if (!choice) continue;
  const select = choice.querySelector('select');
  const figures = [...album.querySelectorAll('figure.picture')];
  const choose = () => figures.forEach((figure, index) => { figure.hidden = index !== Number(select.value); });
  choice.hidden = false;
  select.addEventListener('change', choose);
  choose();
}
