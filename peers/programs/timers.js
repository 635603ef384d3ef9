const { performance } = require("perf_hooks");

const late = [];
let last = performance.now();
const timer = setInterval(() => {
  const now = performance.now();
  late.push((now - last - 2) * 1000);
  last = now;
  if (late.length < 120) return;
  clearInterval(timer);
  late.sort((a, b) => a - b);
  require("fs").writeFileSync(process.env.FIGURES, late[60] + "\n");
  console.log("120 timers");
}, 2);
