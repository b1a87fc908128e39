// Search in a site that is opened from the disk: browsers start no Worker of a file, so a hidden frame takes its part.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.appendChild(frame)
      this.inside = frame.contentWindow
      window.addEventListener("message", (event) => {
        if (event.source !== this.inside) return
        event.stopImmediatePropagation()
        this.dispatchEvent(new MessageEvent("message", { data: event.data }))
      })
      const begin = "postMessage = (data) => parent.postMessage(data, '*'); importScripts = () => Promise.resolve()"
      const inside = this.inside.document
      inside.open()
      inside.write(`<script>${begin}</script><script src="${url}"></script>`)
      inside.close()
      this.ready = new Promise((done) => (frame.onload = done))
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })))
    }
    terminate() {}
  }
}
