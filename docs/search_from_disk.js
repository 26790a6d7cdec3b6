/* A page that is opened from disk may not start a worker, and the search of the theme asks for one.
   Here its script runs in an empty hidden frame, whose window is given what a worker would have. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #frame = document.createElement("iframe")
    #loaded

    constructor(script) {
      super()
      this.#frame.hidden = true
      document.body.append(this.#frame)
      const room = this.#frame.contentWindow
      room.importScripts = async (...scripts) => {
        for (const each of scripts) await this.#load(each)
      }
      room.postMessage = data => {
        const event = new MessageEvent("message", { data })
        this.onmessage?.(event)
        this.dispatchEvent(event)
      }
      this.#loaded = this.#load(script)
    }

    #load(script) {
      const element = this.#frame.contentDocument.createElement("script")
      return new Promise((resolve, reject) => {
        Object.assign(element, { onload: resolve, onerror: reject, src: script })
        this.#frame.contentDocument.head.append(element)
      })
    }

    async postMessage(data) {
      await this.#loaded
      const room = this.#frame.contentWindow
      room.dispatchEvent(new room.MessageEvent("message", { data }))
    }

    terminate() {
      this.#frame.remove()
    }
  }
}
