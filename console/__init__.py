"""The control plane. Apps look only to the left, which keeps them free of cycles:

`ids actor errors changes broker` <- `audit` <- `accounts` <- `rest` <- `budgets` <- `tenants` <- `keys` <- `providers`
<- `studio` <- `spend`, `fleet` <- `asgi celery urls`
"""
