let left = 300;
const next = () => (--left > 0 ? setTimeout(next, 2) : console.log("300 timers"));
setTimeout(next, 2);
