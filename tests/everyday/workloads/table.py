"""A table, a group, a model."""
import numpy
import pandas
from sklearn.linear_model import LogisticRegression

numbers = numpy.random.default_rng(3)
table = pandas.DataFrame({"a": numbers.normal(size=20_000), "b": numbers.normal(size=20_000), "k": numbers.integers(0, 50, 20_000)})
print(table.groupby("k").a.mean().round(6).sum().round(4), table.sort_values("b").b.iloc[0].round(6))
text = table.head(2000).to_csv(index=False)
print(len(text), text[:60].splitlines()[1])
model = LogisticRegression(max_iter=50).fit(table[["a", "b"]][:2000], (table.a + table.b > 0)[:2000])
print(model.score(table[["a", "b"]], table.a + table.b > 0))
