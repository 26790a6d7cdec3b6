/* Search without a server: where a page is opened from disk, browsers refuse workers, so the search runs in a hidden frame.
   After iframe-worker, copyright (c) 2020-2022 Martin Donath, MIT licence, https://github.com/squidfunk/iframe-worker */
class IFrameWorker extends EventTarget {
  constructor(url) {
    super()
    this.frame = document.createElement("iframe")
    this.frame.hidden = true
    document.body.appendChild(this.frame)
    const inside = this.frame.contentWindow
    inside.document.open()
    inside.document.write(
      "<html><body><script>" +
        "postMessage = (message, origin) => parent.postMessage(message, origin || '*');" +
        "importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise(resolve => {" +
        "const script = document.createElement('script'); script.src = url; script.onload = resolve;" +
        "document.body.appendChild(script) })), Promise.resolve())" +
        `<\/script><script src="${url}"><\/script></body></html>`
    )
    inside.document.close()
    this.ready = new Promise(resolve => { inside.onload = resolve })
    addEventListener("message", event => {
      if (event.source !== inside) return
      this.dispatchEvent(new MessageEvent("message", { data: event.data }))
      if (this.onmessage) this.onmessage(event)
    })
  }

  postMessage(data) {
    this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", structuredClone({ data }))))
  }

  terminate() { this.frame.remove() }
}
if (location.protocol === "file:") window.Worker = IFrameWorker
