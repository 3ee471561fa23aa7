// The server's state as it comes, one sample a second, the last 15 minutes of it: what the overview
// plots and other views refer to.

const SAMPLES = 900;
const STATUS = "tidings://self/status";

const live = {
  samples: [],       // {at, status, rates: {changes, deliveries, requests, bytesOut}}
  denied: false,     // who looks may not read the server's state
  watchers: new Set(),
  stream: null,

  get newest() {
    return this.samples.length ? this.samples[this.samples.length - 1] : null;
  },

  start() {
    if (this.stream) this.stream.stop();
    this.stream = mcp.listen({resourceSubscriptions: [STATUS]}, {include: "value", initial: true, windowMs: 0}, {
      acknowledged: (params) => {
        const honoured = (params.notifications && params.notifications.resourceSubscriptions) || [];
        this.denied = !honoured.includes(STATUS);
        this.tell();
      },
      update: (params) => {
        const data = params._meta && params._meta[OURS + "data"];
        const text = Array.isArray(data) && data[0] && data[0].text;
        if (text) this.add(JSON.parse(text));
        else mcp.readJson(STATUS).then((status) => this.add(status), () => {});
      },
    });
  },

  add(status) {
    const before = this.newest;
    const seconds = before ? (status.nowMs - before.status.nowMs) / 1000 : 0;
    const rates = {};
    for (const key of ["changes", "deliveries", "requests", "bytesOut", "merged", "refusals"]) {
      const restarted = before && status.startedMs !== before.status.startedMs;
      rates[key] = before && !restarted && seconds > 0
        ? Math.max(0, (status[key] - before.status[key]) / seconds) : 0;
    }
    if (before && seconds <= 0 && status.startedMs === before.status.startedMs) this.samples.pop();
    this.samples.push({at: status.nowMs, status, rates});
    if (this.samples.length > SAMPLES) this.samples.shift();
    this.tell();
  },

  tell() {
    for (const watcher of this.watchers) watcher();
  },

  watch(fn) {
    this.watchers.add(fn);
    fn();
    return () => this.watchers.delete(fn);
  },
};
