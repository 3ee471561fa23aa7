// The live state of the server, one sample a second, appended to the server's own history: the last
// 15 minutes, for the plots of the overview and for other views.

const SPAN_MS = 900e3;
const LIVE_MS = 1000; // between two samples of the stream
const STALE_MS = 5000; // without a sample: the view is stale
const STATUS = "tidings://self/status";
const HISTORY = "tidings://self/history";
const RATES = ["changes", "deliveries", "requests"];

const live = {
  samples: [],       // {at, every, status, rates: null or {changes, deliveries, requests}, isAfterGap}
  denied: false,     // the user may not read the server's state
  reachable: true,
  heardAt: 0,        // when the newest sample came, by the clock of this page
  watchers: new Set(),
  stream: null,
  timer: 0,

  get newest() {
    return this.samples.length ? this.samples[this.samples.length - 1] : null;
  },

  // The view is stale.
  get isAway() {
    return !this.reachable || (!this.denied && this.newest !== null && Date.now() - this.heardAt > STALE_MS);
  },

  // The server's clock.
  get now() {
    return this.newest ? this.newest.at + Math.max(0, Date.now() - this.heardAt) : Date.now();
  },

  start() {
    if (this.stream) this.stream.stop();
    clearInterval(this.timer);
    this.timer = setInterval(() => { if (this.isAway) this.tell(); }, LIVE_MS);
    this.stream = mcp.listen({resourceSubscriptions: [STATUS]}, {include: "value", initial: true, windowMs: 0}, {
      acknowledged: (params) => {
        const honoured = (params.notifications && params.notifications.resourceSubscriptions) || [];
        this.denied = !honoured.includes(STATUS);
        if (!this.denied) this.recall();
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

  // Fetches the server's history for periods that this page has not seen: before it was opened, and
  // while it was disconnected.
  async recall() {
    let history;
    try {
      history = await mcp.readJson(HISTORY);
    } catch {
      return; // access rules may hide it
    }
    const every = history.everyMs;
    const known = this.samples.map((sample) => sample.at);
    const missing = history.samples.filter((status) => !known.some((at) => Math.abs(at - status.nowMs) < every));
    this.heardAt ||= Date.now();
    this.samples = [...this.samples, ...missing.map((status) => ({at: status.nowMs, every, status}))].sort((a, b) => a.at - b.at);
    this.settle();
  },

  add(status) {
    const newest = this.newest;
    if (newest && status.nowMs <= newest.at) this.samples = this.samples.filter((sample) => sample.at < status.nowMs);
    this.samples.push({at: status.nowMs, every: LIVE_MS, status});
    this.heardAt = Date.now();
    this.settle();
  },

  // Rates are computed between neighbours; there is none across a gap, or across a restart, which
  // resets the counters.
  settle() {
    const end = this.newest ? this.newest.at : 0;
    this.samples = this.samples.filter((sample) => end - sample.at <= SPAN_MS);
    this.samples.forEach((sample, i) => {
      const before = i > 0 ? this.samples[i - 1] : null;
      const ms = before ? sample.at - before.at : 0;
      const isRestart = before !== null && RATES.some((key) => sample.status[key] < before.status[key]);
      sample.isAfterGap = before !== null && (isRestart || ms > 3 * Math.max(sample.every, before.every));
      sample.rates = before === null || sample.isAfterGap || ms <= 0 ? null
        : Object.fromEntries(RATES.map((key) => [key, (sample.status[key] - before.status[key]) * 1000 / ms]));
    });
    this.tell();
  },

  setReachable(yes) {
    if (this.reachable === yes) return;
    this.reachable = yes;
    this.tell();
  },

  tell() {
    document.body.classList.toggle("away", this.isAway);
    for (const watcher of this.watchers) watcher();
  },

  watch(fn) {
    this.watchers.add(fn);
    fn();
    return () => this.watchers.delete(fn);
  },
};
