"use strict";
/* Sorting of tables, copying of commands, the canvas of the sample. Texts are set as textContent. */
(() => {
  const all = (what, from) => [...(from || document).querySelectorAll(what)];
  const by = (id) => document.getElementById(id);

  const value = (cell) => {
    const text = cell.textContent.trim();
    const plain = text.replace(/[,%\s]/g, "").replace("−", "-");
    return plain !== "" && !isNaN(plain) ? Number(plain) : text === "–" ? null : text;
  };
  const order = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));

  for (const table of all("table.sortable")) {
    all("thead button", table).forEach((button, column) => {
      button.addEventListener("click", () => {
        const head = button.parentElement;
        const number = head.classList.contains("n");
        const now = head.getAttribute("aria-sort");
        const down = now ? now === "ascending" : number;
        all("th[aria-sort]", table).forEach((own) => own.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const body = table.tBodies[0];
        const rows = [...body.rows].map((row) => [value(row.cells[column]), row]);
        rows.sort((a, b) => {
          if (a[0] === null || b[0] === null) return (a[0] === null) - (b[0] === null);
          return down ? order(b[0], a[0]) : order(a[0], b[0]);
        });
        body.append(...rows.map((own) => own[1]));
      });
    });
  }

  for (const button of all("button.copy")) {
    button.addEventListener("click", () => {
      const code = button.parentElement.querySelector("code");
      const said = (text) => {
        button.textContent = text;
        setTimeout(() => (button.textContent = "Copy"), 1500);
      };
      const select = () => {
        getSelection().selectAllChildren(code);
        said(document.execCommand("copy") ? "Copied" : "Selected");
      };
      if (navigator.clipboard) navigator.clipboard.writeText(code.textContent).then(() => said("Copied"), select);
      else select();
    });
  }

  addEventListener("beforeprint", () => all("details").forEach((own) => (own.open = true)));

  const stored = by("sample-data");
  if (!stored) return;
  const graph = JSON.parse(stored.textContent);
  const canvas = by("sample"), slider = by("kept"), said = by("node-said");
  const pen = canvas.getContext("2d");
  const colours = 7;
  const square = (label) => Math.floor(label / colours) % 2 === 1; // classes past the colours
  let at = -1, places = [];
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name);

  const draw = () => {
    const ratio = devicePixelRatio || 1, wide = canvas.clientWidth, high = canvas.clientHeight;
    canvas.width = wide * ratio;
    canvas.height = high * ratio;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const edge = 18;
    places = graph.x.map((x, k) => [edge + (x / 1000) * (wide - 2 * edge), edge + (graph.y[k] / 1000) * (high - 2 * edge)]);
    const count = Number(slider.value);
    const strokes = (first, last, name, width, alpha) => {
      pen.beginPath();
      for (let k = first; k < last; k++) {
        pen.moveTo(...places[graph.from[k]]);
        pen.lineTo(...places[graph.to[k]]);
      }
      pen.strokeStyle = colour(name);
      pen.lineWidth = width;
      pen.globalAlpha = alpha;
      pen.stroke();
      pen.globalAlpha = 1;
    };
    strokes(0, count, "quiet", 0.7, 0.45);
    strokes(count, graph.from.length, "c2", 0.9, 0.75);
    const near = new Set();
    if (at >= 0) {
      pen.beginPath();
      for (let k = 0; k < graph.from.length; k++)
        if (graph.from[k] === at || graph.to[k] === at) {
          near.add(graph.from[k]).add(graph.to[k]);
          if (k >= count) continue;
          pen.moveTo(...places[graph.from[k]]);
          pen.lineTo(...places[graph.to[k]]);
        }
      pen.strokeStyle = colour("ink");
      pen.lineWidth = 1.4;
      pen.stroke();
    }
    const fills = [...Array(colours).keys()].map((k) => colour("c" + (k + 1)));
    const paper = colour("paper"), ink = colour("ink");
    places.forEach(([x, y], k) => {
      pen.beginPath();
      const size = k === at ? 6 : near.has(k) ? 4.5 : 3;
      if (square(graph.label[k])) pen.rect(x - size, y - size, 2 * size, 2 * size);
      else pen.arc(x, y, size, 0, 7);
      pen.fillStyle = fills[graph.label[k] % colours];
      pen.fill();
      pen.strokeStyle = k === at ? ink : paper;
      pen.lineWidth = k === at ? 2 : 0.6;
      pen.stroke();
    });
  };

  const tell = () => {
    const total = graph.from.length, count = Number(slider.value);
    const share = total ? ((100 * count) / total).toFixed(1) : "0";
    by("kept-said").textContent = `${count.toLocaleString("en")} of ${total.toLocaleString("en")} (${share} %)`;
    slider.setAttribute("aria-valuetext", by("kept-said").textContent);
  };
  const show = (node) => {
    if (node === at) return;
    at = node;
    if (at < 0) said.textContent = "";
    else {
      const kept = graph.from.filter((_, k) => k < slider.value && (graph.from[k] === at || graph.to[k] === at)).length;
      const known = graph.train[at] ? ", a training node" : "";
      said.textContent = `${graph.id[at]}: ${graph.classes[graph.label[at]]}, ${graph.sure[at]} %${known}; ${kept} edges shown`;
    }
    draw();
  };
  canvas.addEventListener("pointermove", (event) => {
    const x = event.offsetX, y = event.offsetY;
    let best = 14 * 14, node = -1;
    places.forEach((own, k) => {
      const far = (own[0] - x) ** 2 + (own[1] - y) ** 2;
      if (far < best) [best, node] = [far, k];
    });
    show(node);
  });
  canvas.addEventListener("pointerleave", () => show(-1));
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    show((at + step + graph.x.length) % graph.x.length);
  });
  slider.addEventListener("input", () => {
    tell();
    draw();
  });

  const used = [...new Set(graph.label)].sort((a, b) => a - b);
  by("sample-key").append(
    ...used.map((k) => {
      const item = document.createElement("li"), dot = document.createElement("i");
      if (square(k)) dot.className = "sq";
      dot.style.background = `var(--c${(k % colours) + 1})`;
      item.append(dot, graph.classes[k]);
      return item;
    }),
  );
  addEventListener("resize", draw);
  matchMedia("(prefers-color-scheme:dark)").addEventListener("change", draw);
  matchMedia("print").addEventListener("change", draw); // the colours of paper
  tell();
  draw();
})();
