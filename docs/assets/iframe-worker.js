// Lets the search of the site work on pages opened from disk, where browsers refuse to start a Worker: the worker's script
// runs in a hidden frame instead. Pages that come from a server keep the browser's own Worker.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inner = (this.inner = frame.contentWindow);
      this.frame = frame;
      window.addEventListener("message", (event) => {
        if (event.source !== inner) return;
        const message = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(message);
        this.onmessage?.(message);
      });
      inner.document.open();
      inner.document.write(`<body><script>
        postMessage = (data) => parent.postMessage(data, "*");
        importScripts = async (...urls) => {
          for (const url of urls) await new Promise((done) => {
            const script = document.createElement("script");
            script.src = url;
            script.onload = done;
            document.body.append(script);
          });
        };
      </scr` + `ipt><script src="${url}"></scr` + `ipt>`);
      inner.document.close();
      this.ready = new Promise((done) => inner.addEventListener("load", done));
    }
    postMessage(data) {
      this.ready.then(() => this.inner.dispatchEvent(new MessageEvent("message", { data: structuredClone(data) })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
