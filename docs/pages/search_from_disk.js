// A page opened from a disk may start no worker and read no file, so there the index and lunr are
// loaded as scripts, and this stands in for the worker that search/main.js talks to.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(address) {
      this.folder = address.replace(/worker\.js$/, "");
      this.documents = new Map();
    }

    load(name) {
      return new Promise((loaded, failed) => {
        const script = document.createElement("script");
        script.src = this.folder + name;
        script.onload = loaded;
        script.onerror = failed;
        document.head.append(script);
      });
    }

    async start() {
      await this.load("lunr.js");
      await this.load("search_index.js");
      const { config, docs } = searchIndex;
      lunr.tokenizer.separator = new RegExp(config.separator);
      this.documents = new Map(docs.map((doc) => [doc.location, doc]));
      this.index = lunr(function () {
        this.field("title");
        this.field("text");
        this.ref("location");
        docs.forEach((doc) => this.add(doc));
      });
      this.onmessage({ data: { config } });
      this.onmessage({ data: { allowSearch: true } });
    }

    postMessage(message) {
      if (message.init) {
        window.addEventListener("load", () => this.start());
      } else {
        const found = this.index.search(message.query).map(({ ref }) => this.documents.get(ref));
        const results = found.map((doc) => ({ ...doc, summary: doc.text.substring(0, 200) }));
        this.onmessage({ data: { results } });
      }
    }
  };
}
