/* Browsers start no Worker for a page that is opened from a folder (file://). There, the script of
   the search runs in a hidden frame, which answers messages as a Worker does. */
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);
      const inside = this.frame.contentWindow;
      this.ready = new Promise((resolve) => { this.frame.addEventListener("ready", resolve); });
      addEventListener("message", (event) => {
        if (event.source !== inside) return;
        const copy = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(copy);
        if (this.onmessage) this.onmessage(copy);
      });
      inside.document.open();
      inside.document.write(
        `<script>
           var postMessage = (data) => parent.postMessage(data, "*");
           var importScripts = (...urls) => urls.reduce((done, src) => done.then(() =>
             new Promise((resolve) => {
               const script = document.createElement("script");
               Object.assign(script, { src, onload: resolve });
               document.body.appendChild(script);
             })), Promise.resolve());
         </` + `script><script src="${url}"></` + `script>
         <script>frameElement.dispatchEvent(new Event("ready"));</` + "script>");
      inside.document.close();
    }

    postMessage(data) {
      const inside = this.frame.contentWindow;
      this.ready.then(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
