// Runs before the first paint, so that a chosen theme does not flash the other one. 'light', 'dark' or nothing: the system's.
try {
  const chosen = localStorage.getItem('vram-llm.theme');
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
} catch { /* storage may be off; the system's theme is fine */ }
