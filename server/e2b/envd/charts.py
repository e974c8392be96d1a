# Run in each Python kernel of the code interpreter: figures of matplotlib get the data of
# their charts, and tables of pandas their data, as further types of a result.
def _croft_e2b():
    import json, math
    from IPython import get_ipython
    from IPython.core.formatters import BaseFormatter
    from traitlets import ObjectName, Unicode

    shell = get_ipython()

    def plain(v):
        if hasattr(v, "isoformat"):
            return v.isoformat()
        if hasattr(v, "item"):
            v = v.item()
        if isinstance(v, float) and not math.isfinite(v):
            return None
        return v if isinstance(v, (int, float, str)) else str(v)

    def unit(label):
        return label.split("(")[1].split(")")[0] if "(" in label and ")" in label.split("(")[1] else None

    def scale(axis, name):
        kind = type(getattr(axis, "converter", None)).__name__
        if "Category" in kind:
            return "categorical"
        return "datetime" if "Date" in kind else name

    def ticks(axis):
        if scale(axis, "") == "datetime":
            from matplotlib.dates import num2date
            return [num2date(t).isoformat() for t in axis.get_ticklocs()]
        return [plain(t) for t in axis.get_ticklocs()]

    def labels(axis):
        return [t.get_text() for t in axis.get_ticklabels()]

    def tick_label(axis, value):
        for at, text in zip(axis.get_ticklocs(), labels(axis)):
            if abs(at - value) < 1e-9 and text:
                return text
        return str(plain(value))

    def rectangle(line):
        x, y = line.get_xdata(), line.get_ydata()
        return len(x) == 5 and x[0] == x[4] and y[0] == y[4] and len(set(map(float, x))) == 2 and len(set(map(float, y))) == 2

    def boxes(ax):
        found = []
        for box in filter(rectangle, ax.lines):
            left, right = min(box.get_xdata()), max(box.get_xdata())
            low, high, middle = min(box.get_ydata()), max(box.get_ydata()), (left + right) / 2
            ends, median, outliers = [low, high], None, []
            for line in ax.lines:
                x, y = [float(v) for v in line.get_xdata()], [float(v) for v in line.get_ydata()]
                if line.get_linestyle() in ("None", "none") and all(abs(v - middle) < 1e-9 for v in x):
                    outliers += y
                elif len(x) == 2 and x[0] == x[1] and abs(x[0] - middle) < 1e-9:
                    ends += y
                elif len(x) == 2 and y[0] == y[1] and {x[0], x[1]} == {float(left), float(right)}:
                    median = y[0]
            found.append({"label": tick_label(ax.xaxis, middle), "min": plain(min(ends)), "first_quartile": plain(low), "median": plain(median),
                          "third_quartile": plain(high), "max": plain(max(ends)), "outliers": [plain(v) for v in outliers]})
        return found

    def axes(ax):
        from matplotlib.collections import PathCollection
        from matplotlib.container import BarContainer
        from matplotlib.patches import Wedge

        chart = {"title": ax.get_title(), "x_label": ax.get_xlabel(), "y_label": ax.get_ylabel(), "x_unit": unit(ax.get_xlabel()), "y_unit": unit(ax.get_ylabel())}
        wedges = [p for p in ax.patches if isinstance(p, Wedge)]
        if wedges:
            return {"type": "pie", "title": ax.get_title(), "elements": [{"label": p.get_label(), "angle": abs(p.theta2 - p.theta1), "radius": plain(p.r)} for p in wedges]}
        bars = [c for c in ax.containers if isinstance(c, BarContainer)]
        if bars:
            elements = []
            for group in bars:
                across = group.orientation == "horizontal"
                for p in group.patches:
                    at = tick_label(ax.yaxis, p.get_y() + p.get_height() / 2) if across else tick_label(ax.xaxis, p.get_x() + p.get_width() / 2)
                    elements.append({"label": at, "value": str(plain(p.get_width() if across else p.get_height())), "group": group.get_label()})
            return {"type": "bar", **chart, "elements": elements}
        if any(rectangle(line) for line in ax.lines):
            return {"type": "box_and_whisker", **chart, "elements": boxes(ax)}
        points = [c for c in ax.collections if isinstance(c, PathCollection)]
        chart.update(x_ticks=ticks(ax.xaxis), x_tick_labels=labels(ax.xaxis), x_scale=scale(ax.xaxis, ax.get_xscale()),
                     y_ticks=ticks(ax.yaxis), y_tick_labels=labels(ax.yaxis), y_scale=scale(ax.yaxis, ax.get_yscale()))
        if points:
            return {"type": "scatter", **chart, "elements": [{"label": c.get_label(), "points": [[plain(x), plain(y)] for x, y in c.get_offsets()]} for c in points]}
        if ax.lines:
            return {"type": "line", **chart, "elements": [
                {"label": str(line.get_label()), "points": [[plain(x), plain(y)] for x, y in zip(line.get_xdata(), line.get_ydata())]} for line in ax.lines]}
        return {"type": "unknown", "title": ax.get_title(), "elements": []}

    def figure(fig):
        try:
            fig.canvas.draw()  # the labels of ticks are known after it
            charts = [axes(ax) for ax in fig.axes]
            if len(charts) > 1:
                title = fig._suptitle.get_text() if fig._suptitle else ""
                charts = [{"type": "superchart", "title": title, "elements": charts}]
            return charts[0] if charts else None
        except Exception:
            return None  # the picture is shown without its data

    def table(frame):
        try:
            return {str(name): json.loads(frame[name].to_json(orient="values", date_format="iso")) for name in frame.columns}
        except Exception:
            return None

    def add(kind, module, name, f):
        class Formatter(BaseFormatter):
            format_type = Unicode(kind)
            print_method = ObjectName("_repr_" + kind.replace("/", "_") + "_")

            def __call__(self, obj):  # matplotlib removes what is registered for figures
                known = any(c.__module__ == module and c.__name__ == name for c in type(obj).__mro__)
                return f(obj) if known else None

        shell.display_formatter.formatters[kind] = Formatter(parent=shell.display_formatter)

    add("e2b/chart", "matplotlib.figure", "Figure", figure)
    add("e2b/data", "pandas.core.frame", "DataFrame", table)


try:
    _croft_e2b()
finally:
    del _croft_e2b
