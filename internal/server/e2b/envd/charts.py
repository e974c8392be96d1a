# Run in each Python kernel of the code interpreter: figures of matplotlib get the data of
# their charts, and tables of pandas their data, as further types of a result. An image of
# Pillow that the code shows, or saves to a file, is a result.
def _croft_e2b():
    import json, math, os
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

    def named(artist, prefix, kind):
        """The label of an artist; matplotlib numbers those without one."""
        label = str(artist.get_label())
        return kind + " " + label[len(prefix):] if label.startswith(prefix) else label

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

    def rectangles(ax):
        """The corners of the boxes of a box plot, which are lines, or patches where they are filled."""
        from matplotlib.patches import PathPatch

        outlines = [(line.get_xdata(), line.get_ydata()) for line in ax.lines]
        outlines += [p.get_path().vertices[:5].T for p in ax.patches if isinstance(p, PathPatch) and len(p.get_path().vertices) >= 5]
        found = []
        for x, y in outlines:
            if len(x) != 5 or x[0] != x[4] or y[0] != y[4]:
                continue
            x, y = sorted(set(map(float, x))), sorted(set(map(float, y)))
            if len(x) == len(y) == 2:
                found.append((x, y))
        return found

    def boxes(ax, corners):
        """The boxes of a box plot, and whether they lie on their side."""
        lines = []
        for line in ax.lines:
            try:
                points = [float(v) for v in line.get_xdata()], [float(v) for v in line.get_ydata()]
            except (TypeError, ValueError):
                continue  # another line, over dates or names
            lines.append((*points, line.get_linestyle() in ("None", "none")))
        across = any(len(x) == 2 and y[0] == y[1] == (low + high) / 2 and (min(x) < left or max(x) > right)
                     for x, y, _ in lines for (left, right), (low, high) in corners)  # a whisker
        if across:
            corners, lines = [(y, x) for x, y in corners], [(y, x, dots) for x, y, dots in lines]
        found = []
        for (left, right), (low, high) in corners:
            middle, ends, median, outliers = (left + right) / 2, [low, high], None, []
            for x, y, dots in lines:
                if dots and all(abs(v - middle) < 1e-9 for v in x):
                    outliers += y
                elif len(x) == 2 and x[0] == x[1] and abs(x[0] - middle) < 1e-9:
                    ends += y
                elif len(x) == 2 and y[0] == y[1] and {x[0], x[1]} == {left, right}:
                    median = y[0]
            found.append({"label": tick_label(ax.yaxis if across else ax.xaxis, middle), "min": plain(min(ends)), "first_quartile": low, "median": plain(median),
                          "third_quartile": high, "max": plain(max(ends)), "outliers": [plain(v) for v in outliers]})
        return found, across

    def axes(ax):
        from matplotlib.collections import PathCollection
        from matplotlib.container import BarContainer
        from matplotlib.patches import Wedge

        title = ax.get_title() or None
        chart = {"title": title, "x_label": ax.get_xlabel() or None, "y_label": ax.get_ylabel() or None, "x_unit": unit(ax.get_xlabel()), "y_unit": unit(ax.get_ylabel())}
        # The labels of a chart on its side are those of its groups and values, as in E2B.
        on_side = {"title": title, "x_label": chart["y_label"], "y_label": chart["x_label"], "x_unit": chart["y_unit"], "y_unit": chart["x_unit"]}
        wedges = [p for p in ax.patches if isinstance(p, Wedge)]
        if wedges:  # their angles have the precision of float32
            return {"type": "pie", "title": title, "elements": [
                {"label": p.get_label(), "angle": float("%.6g" % abs(p.theta2 - p.theta1)), "radius": plain(p.r)} for p in wedges]}
        bars = [c for c in ax.containers if isinstance(c, BarContainer)]
        if bars:
            elements, across = [], bars[0].orientation == "horizontal"
            for group in bars:
                for p in group.patches:
                    at = tick_label(ax.yaxis, p.get_y() + p.get_height() / 2) if across else tick_label(ax.xaxis, p.get_x() + p.get_width() / 2)
                    elements.append({"label": at, "value": plain(p.get_width() if across else p.get_height()), "group": named(group, "_container", "Group")})
            return {"type": "bar", **(on_side if across else chart), "elements": elements}
        corners = rectangles(ax)
        if corners:
            elements, across = boxes(ax, corners)
            return {"type": "box_and_whisker", **(on_side if across else chart), "elements": elements}
        points = [c for c in ax.collections if isinstance(c, PathCollection)]
        chart.update(x_ticks=ticks(ax.xaxis), x_tick_labels=labels(ax.xaxis), x_scale=scale(ax.xaxis, ax.get_xscale()),
                     y_ticks=ticks(ax.yaxis), y_tick_labels=labels(ax.yaxis), y_scale=scale(ax.yaxis, ax.get_yscale()))
        if points:
            return {"type": "scatter", **chart, "elements": [{"label": c.get_label(), "points": [[plain(x), plain(y)] for x, y in c.get_offsets()]} for c in points]}
        if ax.lines:
            return {"type": "line", **chart, "elements": [
                {"label": named(line, "_child", "Line"), "points": [[plain(x), plain(y)] for x, y in zip(line.get_xdata(), line.get_ydata())]} for line in ax.lines]}
        return {"type": "unknown", "title": title, "elements": []}

    def figure(fig):
        try:
            fig.canvas.draw()  # the labels of ticks are known after it
            charts = [axes(ax) for ax in fig.axes]
            if len(charts) > 1:
                title = fig._suptitle.get_text() or None if fig._suptitle else None
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

    def show_images(info):
        import sys
        if "PIL" not in sys.modules and "PIL" not in info.raw_cell:
            return  # the import takes time that most code does not need
        shell.events.unregister("pre_run_cell", show_images)
        try:
            from PIL import Image, ImageShow
        except ImportError:
            return
        from IPython.display import display
        save = Image.Image.save

        def save_and_show(image, fp, format=None, **options):
            save(image, fp, format, **options)
            if isinstance(fp, (str, os.PathLike)):
                display(image)

        def show(image, **options):  # there is no screen
            display(image)
            return True

        Image.Image.save = save_and_show
        ImageShow.show = show

    shell.events.register("pre_run_cell", show_images)


try:
    _croft_e2b()
finally:
    del _croft_e2b
